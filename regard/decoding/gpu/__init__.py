"""searches and kernels for a GPU; other packages import them from `regard.decoding`."""
