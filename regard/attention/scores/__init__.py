"""Score functions, one a file: query, key → how well each query suits each key.

To add one: a class with the `Score` protocol (links.py) and a line in tables.py.
"""
