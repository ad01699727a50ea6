"""Relations, one a file: places → what distance adds to the scores and to the context.

To add one: a class with the `Relation` protocol (links.py) and a line in tables.py.
"""
