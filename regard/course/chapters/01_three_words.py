# %% [markdown]
"""
# 1 · Three words, by hand

After this chapter you can compute attention with a pencil: three words, three numbers each, and
every number on the way. Read the code, run it, change a number, and run it again.

Each word is a vector. The numbers here are invented; a model learns its own.
"""

# %%
import torch

from regard import attend
from regard.parts import DotScore
from regard.plots import shade

words = ["I", "am", "good"]
x = torch.tensor([[1.0, 3, 2], [1, 1, 3], [1, 2, 1]], dtype=torch.float64)

# %% [markdown]
"""
## Step 1: score

Each word asks a question (it is a *query*), and each word can be the answer (it is a *key*). How
well a key answers is one number, here the sum of products of their entries:

    e[i,j] = q[i] · k[j]

For "I" and "am": 1·1 + 3·1 + 2·3 = **10**. For all nine pairs at once it is a product of matrices.
"""

# %%
by_hand = 1 * 1 + 3 * 1 + 2 * 3
scores = x @ x.T
print(by_hand)
print(scores)

# %% [markdown]
"""
## Step 2: select

A row of scores becomes shares that sum to 1: raise e to each score, and divide by the sum of the
row. This is the *softmax*. "I" gives itself **0.975559** and "am" **0.017868**: a score that is
larger by 4 counts as much as **54.6** times, since that is e to the power of 4.

    a[i,j] = exp(e[i,j]) / sum_m exp(e[i,m])
"""

# %%
powers = torch.exp(scores)
weights = powers / powers.sum(dim=1, keepdim=True)
print(weights.numpy().round(6))
print(round(float(weights[0, 0] / weights[0, 1]), 1))

# %% [markdown]
"""
## Step 3: combine

The result of a word, its *context*, is the sum of all *values*, each times its share. The values
are the same three vectors here. The context of "am" is 0.267623 times the first row plus 0.727475
times the second plus 0.004902 times the third: (1, **1.540148**, **2.722573**).

    z[i] = sum_j a[i,j] v[j]
"""

# %%
context = weights @ x
print(context.numpy().round(6))

# %% [markdown]
"""
## The same in one call

`attend` does these three steps. `attended.map` holds the weights, and `shade` draws them: the
darker, the larger. "good" looks at "I" more than at itself.
"""

# %%
attended = attend(x, x, x, score=DotScore())
assert torch.allclose(attended.context, context)
print(shade(attended.map.dense(), rows=words, columns=words))

# %% [markdown]
"""
## Two sentences

Queries and keys need not be the same words. Here English words ask and Chinese words answer, which
is what a translator does. Now "I" gives 很 its largest share, **0.665241**.
"""

# %%
y = torch.tensor([[2.0, 0, 2], [1, 1, 2], [5 / 3, 4 / 3, 2 / 3]], dtype=torch.float64)
across = attend(x, y, y, score=DotScore())
print(across.map.dense().numpy().round(6))

# %% [markdown]
"""
## Question

The first number of every context is exactly 1. Why? Change the first column of `x` to fives, and
say what comes out before you run it.
"""

# %%
fives = x.clone()
fives[:, 0] = 5
print(attend(fives, fives, fives, score=DotScore()).context[:, 0])
print(weights.sum(dim=1))

# %% [markdown]
"""
A context is a mean of values, with shares that sum to 1. Where all values agree, every mean of
them is that value, whatever the shares are.
"""
