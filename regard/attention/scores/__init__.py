"""query, key → scores: how well does this query suit this key?"""
