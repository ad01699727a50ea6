"""One line changes the attention of a torch model: sparse weights instead of soft ones.

Expected output, among other lines:

    Chain(score=scaled_dot, select=soft) 0% of the weights are zero
    Chain(score=scaled_dot, select=sparsemax) 69% of the weights are zero
"""

import torch
from torch import nn

import regard

torch.manual_seed(0)
layer = nn.TransformerEncoderLayer(d_model=32, nhead=4, dim_feedforward=64, batch_first=True)
x = torch.randn(2, 10, 32)
for chain in (regard.Chain(), regard.Chain(select="sparsemax")):
    attention = regard.MultiheadAttention(32, 4, batch_first=True, chain=chain)
    attention.load_state_dict(layer.self_attn.state_dict())
    layer.self_attn = attention
    with regard.capture(layer) as record:
        layer(x)
    (kind,) = record.attention
    weights = record.weights(kind, layer=0, head=0)
    print(chain, f"{(weights == 0).float().mean():.0%} of the weights are zero")
