# %% [markdown]
"""
# 4 · Soft and hard

After this chapter you can say what it costs to *choose* one key instead of mixing all of them: you
will see the noise of the gradient, and how a baseline takes most of it away.

*Soft* attention gives each key a share. *Hard* attention draws one key, with these shares as
probabilities, and looks there alone.
"""

# %%
import torch

from regard import attend
from regard.parts import HardSelection, SoftSelection
from regard.plots import shade

torch.manual_seed(0)
query = torch.eye(4)
key = torch.tensor([[2.0, 0, 0, 0], [0, 2, 1, 0], [0, 0, 2, 0], [1, 0, 0, 2]])
names = ["a", "b", "c", "d"]
soft = attend(query, key, key, select=SoftSelection())
hard = attend(query, key, key, select=HardSelection().train())
print(shade(soft.map.dense(), rows=names, columns=names))
print()
print(shade(hard.map.dense(), rows=names, columns=names))

# %% [markdown]
"""
## Many draws are soft attention

Draw 20,000 times for the first query: the shares of the draws come within **0.01** of the weights.
"""

# %%
many = query[:1].expand(20_000, 4)
drawn = attend(many, key, key, select=HardSelection().train()).map.dense().mean(0)
print(soft.map.row(0))
print("within 0.01:", bool((drawn - soft.map.row(0)).abs().max() < 0.01))

# %% [markdown]
"""
## A gradient without a gradient

A draw has no derivative. Suppose looking at key j earns a reward r[j], and we want more of it. The
mean reward is an ordinary function of the scores, and has an exact gradient:

    J = sum_j a[j] r[j],   ∂J / ∂e[j] = a[j] (r[j] - J)

*REINFORCE* estimates it from draws s alone: it asks only for the logarithm of the probability of
what was drawn, which has a derivative.

    ∂J / ∂e ≈ (r[s] - b) ∂ log a[s] / ∂e
"""

# %%
e = torch.tensor([0.0, 1.0, 0.5, -0.5], requires_grad=True)
reward = torch.tensor([10.0, 11.0, 12.0, 10.0])
a = e.softmax(0)
mean = (a * reward).sum()
(exact,) = torch.autograd.grad(mean, e)
mean_reward = mean.item()
print(f"mean reward {mean_reward:.2f}")
print("exact gradient", exact.numpy().round(3))


# %%
def estimates(baseline: float, count: int = 20_000) -> torch.Tensor:
    """One estimate of the gradient for each draw."""
    scores = torch.tensor([0.0, 1.0, 0.5, -0.5]).repeat(count, 1).requires_grad_()
    one_hot = torch.eye(4)
    # with these queries and keys the scores of `attend` are the numbers above
    attended = attend(scores, one_hot, one_hot, score="dot", select=HardSelection().train())
    earned = (attended.context @ reward).detach()
    logs = attended.rows.log_prob.squeeze(-1)
    ((earned - baseline) * logs).sum().backward()
    return scores.grad


plain, based = estimates(0.0), estimates(mean_reward)
for name, each in (("b = 0", plain), ("b = mean", based)):
    print(f"{name:9} mean {each.mean(0).numpy().round(2)}  variance {each.var(0).sum():.1f}")
ratio = float(plain.var(0).sum() / based.var(0).sum())

# %% [markdown]
"""
Both estimators mean the same gradient: a constant b changes nothing on average, since
probabilities sum to 1. But a reward of 10 for *anything* pushes each draw up by 10, and only the
average sees that all were pushed. Without a baseline the variance is **81.0**; with the mean
reward as baseline it is **0.4**. The noise is what makes hard attention slow to learn.
"""

# %% [markdown]
"""
## Question

How many draws with b = 0 are as good as one draw with the mean as baseline? And how many as the
exact gradient of soft attention?
"""

# %%
print("as many as", int(ratio) // 100 * 100, "at least")
again = torch.stack([torch.autograd.grad((e.softmax(0) * reward).sum(), e)[0] for _ in range(9)])
print("variance of the exact gradient:", float(again.var(0).sum()))

# %% [markdown]
"""
The variance of a mean of n draws is the n-th part, so as many as the ratio of the two variances:
more than **200**. Soft attention needs no draws, so no number of them is as good. That is why most
models are soft, and why hard ones are trained with a baseline.
"""
