"""Encoder-decoders on stacked gated convolutions, with attention in every decoder layer."""
