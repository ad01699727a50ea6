"""vectors → vectors, by some of many: mixtures of feed-forwards."""
