"""query, key, value of model width → many views of them, joined again."""
