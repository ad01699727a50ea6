# %% [markdown]
"""
# 5 · Local windows

After this chapter you can tell three ways to look at a part of the sentence from each other, and
count how many layers a small window needs until two words meet.
"""

# %%
import torch

from regard import Chain, Dims, attend
from regard.inspecting import meetings
from regard.parts import LocalMonotonicSelection, LocalPredictiveSelection, SlidingWindowPattern
from regard.plots import heatmap, shade

torch.manual_seed(1)
n = 12
x = torch.randn(n, 8)

# %% [markdown]
"""
## A window is a mask

*sliding_window* lets a query see its neighbours up to `size` away, and hides the others. With a
size of 2 a word in the middle sees **5** words, itself included, and all shares still sum to 1.

    visible[i,j] = |j - i| <= size
"""

# %%
window = attend(x, x, x, SlidingWindowPattern(size=2))
print(shade(window.map.dense()))
print("seen by word 6:", int((window.map.row(6) > 0).sum()))

# %% [markdown]
"""
## A window that moves

In translation, word 6 of the answer need not look around word 6 of the source. Luong's
*local_monotonic* puts the window at the query's own place. *local_predictive* lets the query say
where, p, and fades the weights with the distance from there:

    p[i] = n sigmoid(vᵀ tanh(W q[i])),   a[i,j] = softmax(e)[i,j] exp(-(j - p[i])² / 2σ²)
"""

# %%
dims = Dims(d_model=8)
own_place = LocalMonotonicSelection(dims, half_width=2)
predicted = LocalPredictiveSelection(dims, half_width=2)
batch = x[None, None]
with torch.no_grad():
    monotonic = Chain(select=own_place)(batch, batch, batch)
    predictive = Chain(select=predicted)(batch, batch, batch)
print("centres of the first rows:", predictive.rows.centre[0, 0, :3, 0].numpy().round(1))
sums = predictive.map.dense()[0, 0].sum(-1)
print(f"rows sum to {sums.min():.2f} or more, and to less than 1: {bool(sums.max() < 1)}")

# %%
heatmap(predictive.map.dense()[0, 0])

# %% [markdown]
"""
Its rows sum to less than 1, since the fading takes weight away and nothing gives it back. The
paper prints it so, and it is no mistake: a row whose centre lies between good keys is a quieter
row.

## What a window cannot see

Words 12 apart cannot meet in one layer of a window of ±2. But the second layer reads outputs of
the first, which have seen 2 words further, so the reach grows with the layers. For a sentence of
50 words and a window of 5 words:
"""

# %%
for each in meetings(length=50, window=5):
    print(f"{each.name:36} {each.layers:3} layers  {each.multiply_adds:12,} multiply-adds")

# %% [markdown]
"""
An ordinary convolution of 5 words needs **25** layers until the first word meets the last: 2 more
words a layer, 49 to go. If each layer doubles its steps it takes **5**. Full attention needs 1,
and pays for it with n² scores.
"""

# %% [markdown]
"""
## Question

How many layers of a sliding window of size 2 does a text of 12 words need, until the output at the
last word depends on the first? Compute it, then try: change the first word, and see when the last
output changes.
"""

# %%
print("by the formula:", -(-(n - 1) // 2))


def last_output(first: torch.Tensor, layers: int) -> torch.Tensor:
    """The last output of a stack of windows over the words, with another first word."""
    y = torch.cat([first[None], x[1:]])
    for _ in range(layers):
        y = attend(y, y, y, SlidingWindowPattern(size=2)).context
    return y[-1]


for layers in (5, 6):
    same = torch.equal(last_output(x[0], layers), last_output(x[0] + 100, layers))
    print(layers, "layers: the first word is", "not seen" if same else "seen")
