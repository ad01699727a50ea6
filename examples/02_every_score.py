"""One sentence under every score: the same query and keys, and where "bank" looks.

Expected output, among other lines:

                     the   river    bank      is     wet
    dot            0.000   0.001   0.999   0.000   0.000
    scaled_dot     0.040   0.128   0.784   0.010   0.039
"""

import torch

from regard import Chain, Dims
from regard.attention import SCORES

torch.manual_seed(0)
words = ["the", "river", "bank", "is", "wet"]
x = torch.randn(1, 1, len(words), 16)
# location scores from the query alone, and so needs to know how many keys there may be
dims = Dims(d_model=16, max_len=len(words))
print(f"{'':<12}" + "".join(f"{word:>8}" for word in words))
for name, make in SCORES.items():
    weights = Chain(score=make(dims))(x, x, x).map.dense()[0, 0, words.index("bank")]
    print(f"{name:<12}" + "".join(f"{weight:8.3f}" for weight in weights))
