"""tokens → the next token: what a language model is made of, reads and remembers."""
