"""Which path would run a chain, and why: as a database explains a query.

Expected output, among other lines:

    fused:
    joined:
    thresholded:
    streamed:
"""

from regard import Chain, Dims
from regard.parts import AdditiveScore, ShawRelation

head = Dims(d_model=64, n_heads=1).head()
chains = {
    "plain": Chain(),
    "shaw": Chain(relation=ShawRelation(head, clip=16)),
    "sparsemax": Chain(select="sparsemax"),
    "additive": Chain(score=AdditiveScore(head)),
}
for name, chain in chains.items():
    print(f"{name}\n{chain.explain(20_000, n_heads=8)}\n")
