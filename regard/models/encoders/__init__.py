"""a text → what stands at each of its words: models that read and do not write."""
