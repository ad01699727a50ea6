"""keys, values → fewer keys and values."""
