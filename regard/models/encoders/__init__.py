"""a text → a vector, word or label at each of its words: encoder-only models."""
