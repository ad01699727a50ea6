"""Encoder-decoders on LSTMs and GRUs: with Luong's attention, Bahdanau's, or none."""
