"""tokens → the next token: a language model's spec, its rows, and its state between steps."""
