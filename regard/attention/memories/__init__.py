"""Memories, one a file: keys, values → fewer keys and values.

To add one: a class with the `Memory` protocol (links.py) and a line in tables.py.
"""
