"""places → what distance adds to the scores and to the context."""
