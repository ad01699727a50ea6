# %% [markdown]
"""
# 3 · Why √d

After this chapter you can show, with numbers that you measured, why scores are divided by the root
of the width, and which width is meant.

Take queries and keys of independent numbers with mean 0 and variance 1. A dot product of width d
adds up d products, each of variance 1, so its variance is d. The spread of the scores grows with
the root of d.
"""

# %%
import torch

from regard.inspecting import saturation
from regard.parts import DotScore, ScaledDotScore

rows = saturation()
print("width  scaled  variance  largest weight  gradient")
for row in rows:
    print(
        f"{row.width:5}  {row.scaled!s:6} {row.variance:9.1f} {row.largest_weight:15.2f}"
        f" {row.gradient:9.2f}"
    )

# %% [markdown]
"""
## What the softmax makes of it

With 64 keys and a width of 4 the largest weight is **0.27** on average; with a width of 1024 it is
**0.95**, although nothing in the vectors says that one key should win. Scaled, it is **0.11** or
less at every width.

The last column is what can be learned. The derivative of a softmax is a matrix,

    ∂a[i] / ∂e[j] = a[i] (1 if i = j else 0) - a[i] a[j]

and its trace is 1 minus the sum of squared weights. At a width of 1024 it falls to **0.08**
unscaled, and stays at **0.96** scaled. (Its diagonal alone, a(1 - a), is not the derivative: the
other entries are there too.)
"""

# %%
p = torch.tensor([1.0, 2.0, 4.0]).softmax(0)
jacobian = torch.autograd.functional.jacobian(lambda e: e.softmax(0), torch.tensor([1.0, 2.0, 4.0]))
print(jacobian.numpy().round(3))
print(torch.allclose(jacobian, torch.diag(p) - torch.outer(p, p)))

# %% [markdown]
"""
## The gradient that arrives

The same, measured where it matters: the length of the gradient that a loss sends back to the
scores, through a softmax over 64 keys. It is a mean over 200 queries.
"""


# %%
def gradient(width: int, score: object) -> float:
    """The mean length of the gradient at a row of scores."""
    generator = torch.Generator().manual_seed(1)
    query = torch.randn(200, 1, width, generator=generator)
    key = torch.randn(200, 64, width, generator=generator)
    wanted = torch.randn(200, 1, 64, generator=generator)
    scores = score(query, key).detach().requires_grad_()
    (scores.softmax(-1) * wanted).sum().backward()
    return float(scores.grad.norm(dim=-1).mean())


widths = (4, 16, 64, 256, 1024)
plain = [gradient(width, DotScore()) for width in widths]
scaled = [gradient(width, ScaledDotScore()) for width in widths]
for width, one, other in zip(widths, plain, scaled, strict=True):
    print(f"{width:5}  unscaled {one:.3f}  scaled {other:.2f}")

# %% [markdown]
"""
Unscaled, the gradient falls from **0.238** at a width of 16 to **0.048** at 1024: most rows have
settled on a key that chance chose, and what is left of their gradient is too little to change
that. Scaled, it is about **0.18** at every width. It is an argument for the *start* of training;
trained vectors are not independent.
"""

# %% [markdown]
"""
## Question

A model is 512 wide and has 8 heads. Is the scale the root of 512, or of 512 / 8 = 64? Compute the
variance of one head's scores under both.
"""

# %%
generator = torch.Generator().manual_seed(2)
query, key = torch.randn(2, 4000, 64, generator=generator)
products = (query * key).sum(-1)
print(f"divided by √512: {(products / 512**0.5).var():.2f}")
print(f"divided by √64:  {(products / 64**0.5).var():.2f}")

# %% [markdown]
"""
A dot product of one head adds up 64 numbers, so its width is 64. With the width of the model the
variance is **0.12**, and each head would begin nearly blind.
"""
