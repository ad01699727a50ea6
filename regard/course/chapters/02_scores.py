# %% [markdown]
"""
# 2 · Scores

After this chapter you can name six ways in which a query and a key are compared, and say what each
of them can express that the others cannot.
"""

# %%
import torch

from regard import Dims, attend, multi_head
from regard.parts import (
    AdditiveScore,
    ConcatScore,
    DotScore,
    GeneralScore,
    LocationScore,
    ScaledDotScore,
)

torch.manual_seed(0)
words = ["I", "am", "good"]
x = torch.tensor([[1.0, 3, 2], [1, 1, 3], [1, 2, 1]])

# %% [markdown]
"""
## Without parameters

*dot* multiplies and adds; *scaled_dot* divides the result by the root of the width, here by the
root of 3, **1.732**. For "I" with itself that makes **8.083** of 14. Chapter 3 says why.

    dot:         e[i,j] = q[i] · k[j]
    scaled_dot:  e[i,j] = q[i] · k[j] / sqrt(d)
"""

# %%
print(f"{3**0.5:.3f}")
print(DotScore()(x, x)[0])
print(ScaledDotScore()(x, x)[0].numpy().round(3))

# %% [markdown]
"""
## With parameters

*general* puts a matrix between the two, so a query may look for something else than itself. With
the identity it is *dot*. *additive* asks a small network; *concat* is the same idea with one
matrix over both. *location* never looks at the key: the query alone says where to look.

    general:   e[i,j] = q[i]ᵀ W k[j]
    additive:  e[i,j] = vᵀ tanh(W q[i] + U k[j])
    concat:    e[i,j] = vᵀ tanh(W [q[i]; k[j]])
    location:  e[i,j] = (W q[i])[j]
"""

# %%
dims = Dims(d_model=3, max_len=3)
general = GeneralScore(dims)
with torch.no_grad():
    general.W.copy_(torch.eye(3))
    print(torch.equal(general(x[None, None], x[None, None])[0, 0], DotScore()(x, x)))
parts = {
    "general": general,
    "additive": AdditiveScore(dims, d_hidden=8),
    "concat": ConcatScore(dims, d_hidden=8),
    "location": LocationScore(dims),
}
for name, score in parts.items():
    print(f"{name:9}", sum(weight.numel() for weight in score.parameters()), "parameters")

# %% [markdown]
"""
## What a score cannot see

Add one number to a whole row of scores: every power of e grows by the same factor, the sum too,
and the shares stay. So a softmax sees differences alone. The largest change below is **0.0000001**
or less, which is rounding.
"""

# %%
scores = DotScore()(x, x)
change = (scores.softmax(-1) - (scores + 5).softmax(-1)).abs().max()
print("less than 0.0000001:", bool(change < 1e-7))

# %% [markdown]
"""
## Its shape decides its cost

A product of queries and keys is one matrix product. The network of *additive* has to be asked for
each pair: for 1,000 words and a hidden width of 8 that is **8,000,000** values of tanh. `explain`
says what a part costs, and which path it takes.
"""

# %%
print(f"{1000 * 1000 * 8:,}")
model = Dims(d_model=64, n_heads=4)
for name in ("scaled_dot", "additive"):
    plan = multi_head(model, score=name).explain(1000)
    print(name, "→", plan.path)

# %% [markdown]
"""
## Question

Give attention the words in another order. What happens to the contexts, with any of the scores
that read keys?
"""

# %%
order = torch.tensor([2, 0, 1])
straight = attend(x, x, x).context
shuffled = attend(x[order], x[order], x[order]).context
print(torch.allclose(shuffled, straight[order]))

# %% [markdown]
"""
They come in the new order, and not one number changes: attention is *equivariant* to the order of
words. It does not know that there is an order. Chapter 7 tells it.
"""
