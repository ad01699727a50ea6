"""pictures → captions: an encoder's grid of annotations, and decoders that look at it."""
