"""Patterns, one a file: places → which keys a query may see.

To add one: a class with the `Pattern` protocol (links.py) and a line in tables.py.
"""
