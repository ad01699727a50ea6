"""The weights of a long text without the matrix: rows and tiles are rebuilt on demand.

Expected output, among other lines:

    sparse: 3 % of the map, in chunks of 128 rows
    tensor([[0.0120, 0.0006, 0.0043, 0.0215],
    tensor([0.0735, 0.0734, 0.0709]) tensor([5954, 5953, 5965])
"""

import torch

from regard import Chain
from regard.parts import CausalPattern, SlidingWindowPattern, all_of

torch.manual_seed(0)
n = 8192
query, key, value = (torch.randn(1, 2, n, 32) for _ in range(3))
window = all_of(CausalPattern(), SlidingWindowPattern(size=64))
chain = Chain()
attended = chain(query, key, value, window)
print(chain.explain(n, n_heads=2, mask=window))
print(attended.map.tile(slice(6000, 6004), slice(5997, 6001))[0, 0])
weights, places = attended.map.top(3)
print(weights[0, 0, 6000], places[0, 0, 6000])
