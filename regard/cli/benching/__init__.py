"""a mechanism and a length → seconds and bytes, each measured in a process of its own."""
