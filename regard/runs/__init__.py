"""a finished run → answers, scores, records and plans."""
