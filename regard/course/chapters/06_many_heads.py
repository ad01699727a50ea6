# %% [markdown]
"""
# 6 · Many heads

After this chapter you can take a head away from a trained attention and measure what it was worth.

One attention gives each word one mean of the others. A word often needs several: its subject *and*
its verb. *Heads* are attentions side by side, each in a space of its own, whose contexts are put
next to each other and mixed:

    head[i] = attend(Q W_Q[i], K W_K[i], V W_V[i]),   out = concat(head) W_O
"""

# %%
import copy

import torch

from regard import Dims, multi_head
from regard.parts import SinusoidalPositions
from regard.plots import shade

torch.manual_seed(0)
dims = Dims(d_model=32, n_heads=4)
heads = multi_head(dims)
x = torch.randn(2, 7, 32)
attended = heads(x)
print(attended.map.shape)
print(sum(weight.numel() for weight in heads.parameters()))

# %% [markdown]
"""
The map has four matrices for each sentence. The four projections take 4 · 32² = **4096** numbers,
however many heads there are: more heads are narrower heads, of 32 / 4 = 8 here.

## The sum behind the concat

W_O may be cut into one block of columns for each head. Then the output is a *sum* over heads, and
taking a head away is leaving out one term.
"""

# %%
apart = heads.attend_with_cache(x)[0].context  # the heads before they are joined
blocks = heads.W_O.weight.split(8, dim=1)
summed = sum(apart[:, h] @ blocks[h].T for h in range(4))
print(torch.allclose(summed, heads(x).context, atol=1e-6))

# %% [markdown]
"""
## A task for two heads

Words are random vectors, with positions added. The output at each place shall be the word on its
left and the word on its right. One mean cannot be both, but two can.
"""


# %%
def sentences(count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Random words, and for each its left and its right neighbour, side by side."""
    words = torch.randn(count, 10, 16)
    return words, torch.cat([words.roll(1, 1), words.roll(-1, 1)], -1)


def inputs(words: torch.Tensor) -> torch.Tensor:
    """Words beside their positions, in a vector of 64."""
    places = SinusoidalPositions(Dims(d_model=48))(torch.arange(10)).float()
    return torch.cat([words, places.expand(len(words), -1, -1)], -1)


def trained(n_heads: int) -> tuple[torch.nn.Module, float]:
    """Heads that learned the task, and their error on new sentences; 1 is as bad as guessing 0."""
    torch.manual_seed(3)
    model = multi_head(Dims(d_model=64, n_heads=n_heads))
    adam = torch.optim.Adam(model.parameters(), lr=4e-3)
    for _ in range(300):
        words, wanted = sentences(16)
        error = (model(inputs(words)).context[..., :32] - wanted).square().mean()
        adam.zero_grad()
        error.backward()
        adam.step()
    words, wanted = sentences(500)
    with torch.no_grad():
        return model, float((model(inputs(words)).context[..., :32] - wanted).square().mean())


single, pair = trained(1), trained(2)
print(f"1 head: {single[1]:.1f}")
print(f"2 heads: {pair[1]:.1f}")

# %% [markdown]
"""
With one head an error of **0.5** remains: it mixes both neighbours, and gives half of each. With
two heads the error is **0.0** in one digit. Each head has taken one side:
"""

# %%
words, wanted = sentences(1)
for head in range(2):
    print(shade(pair[0](inputs(words)).map.dense()[0, head]))
    print()

# %% [markdown]
"""
## What a head is worth

Take one head away: set its block of W_O to zero, and measure the error of the left and of the
right neighbour. One side stays, and the other is lost: its error rises from 0.0 to **1.0**, that
of a guess.
"""

# %%
for head in range(2):
    model = copy.deepcopy(pair[0])
    with torch.no_grad():
        model.W_O.weight.split(32, dim=1)[head].zero_()
        words, wanted = sentences(500)
        errors = (model(inputs(words)).context[..., :32] - wanted).square().mean((0, 1))
    left, right = errors.split(16)
    print(f"without head {head + 1}: left {left.mean():.1f}, right {right.mean():.1f}")

# %% [markdown]
"""
## Question

Eight heads of width 8 have as many parameters as two of width 32. Do they solve the task as well?
A head that looks at one side can carry only 8 of the 16 numbers of a word.
"""

# %%
print(f"8 heads: {trained(8)[1]:.1f}")

# %% [markdown]
"""
They do: two heads can look at the same side, and carry half a word each. What no number of heads
can do without is one head for each place to look at.
"""
