"""other libraries' models → runs, and runs → other libraries' models."""
