"""sizes that somebody published → models: the families whose layouts differ from our own."""
