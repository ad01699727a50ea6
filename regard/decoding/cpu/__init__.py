"""quicker forms of a model's parts on a CPU; other packages call `regard.decoding.fast_model`."""
