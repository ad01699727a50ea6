# %% [markdown]
"""
# 7 · Positions

After this chapter you can prove that a shift of sinusoidal positions is a matrix, and write
relative positions as two products of matrices, without a tensor of n × n × d.

Attention does not know the order of words (chapter 2). Something must tell it.
"""

# %%
import torch

from regard import Chain, Dims
from regard.parts import ShawRelation, SinusoidalPositions
from regard.plots import heatmap

dims = Dims(d_model=16)
positions = SinusoidalPositions(dims)
PE = positions(torch.arange(40))
print(PE.shape)
print(PE[3].numpy().round(3)[:4])

# %% [markdown]
"""
## Waves

Position p becomes waves of many lengths; neighbouring entries are a sine and a cosine.

    PE[p, 2i] = sin(p w[i]),   PE[p, 2i+1] = cos(p w[i]),   w[i] = 10000^(-2i / m)

The first pair turns by 1 radian a word: at p = 3 it is sin 3 = **0.141** and cos 3 = **-0.99**.

## A shift is a rotation: T(k)

By the rules for sums of angles, a pair at p + k is the pair at p, turned by k w[i]:

    [ sin((p+k)w) ]   [  cos kw   sin kw ] [ sin pw ]
    [ cos((p+k)w) ] = [ -sin kw   cos kw ] [ cos pw ]

The matrix depends on k alone, not on p. All pairs together make T(k), with these blocks on its
diagonal. So PE[p + k] = T(k) PE[p]: "k words further" is one linear map, which W_Q and W_K can
learn.
"""

# %%
T = positions.shift
print(torch.allclose(PE[12], T(5) @ PE[7]), torch.allclose(PE[35], T(5) @ PE[30]))
print(torch.allclose(T(3) @ T(2), T(5)))
print(torch.allclose(T(5) @ T(5).T, torch.eye(16, dtype=torch.float64)))

# %% [markdown]
"""
T(a) T(b) = T(a + b), and each T is a rotation: lengths stay. Each vector has the length √(m / 2) =
√8 = **2.828**. The product of two positions depends on their distance alone, and it is the same to
the left and to the right.
"""

# %%
print(f"{PE[0].norm():.3f}", f"{PE[31].norm():.3f}")
print(f"{PE[10] @ PE[13]:.4f} {PE[20] @ PE[23]:.4f} {PE[10] @ PE[7]:.4f}")
heatmap(PE.float() @ PE.float().T / 8, row_title="p", column_title="q", meaning="PE[p] · PE[q] / 8")

# %% [markdown]
"""
## Relative positions

Shaw and others add a learned vector for each distance to the key, and another to the value:

    e[i,j] = q[i] · (k[j] + wK[c]) / sqrt(d),   z[i] = sum_j a[i,j] (v[j] + wV[c])
    c = clip(j - i, -k, k)

Written down as it stands, that is a vector for each *pair*: a tensor of n × n × d.
"""

# %%
torch.manual_seed(0)
n, d, clip = 9, 16, 3
relation = ShawRelation(Dims(d_model=d), clip=clip)
q, k, v = torch.randn(3, 1, 1, n, d)
distance = (torch.arange(n) - torch.arange(n)[:, None]).clamp(-clip, clip) + clip
wK, wV = relation.wK[0].detach(), relation.wV[0].detach()
pairs = wK[distance]
e = (q[0, 0, :, None] * (k[0, 0] + pairs)).sum(-1) / d**0.5
a = e.softmax(-1)
z = (a[..., None] * (v[0, 0] + wV[distance])).sum(1)
print(pairs.numel(), "numbers for pairs,", wK.numel(), "in the table")

# %% [markdown]
"""
## The matrix form

There are n² pairs but only 2k + 1 distances. For a fixed query, q[i] · wK[c] depends on j only
through c. So compute each number once, R = Q wKᵀ, which is n × (2k + 1), and *pick* entry (i, c).

For the values, sort the sum by distance: put the weights of all keys at distance r together in
B[i,r], again n × (2k + 1), and multiply once:

    sum_j a[i,j] wV[c(i,j)] = sum_r B[i,r] wV[r] = (B wV)[i],   B[i,r] = sum over j with c(i,j) = r

Nothing was left out, so both forms are the same function.
"""

# %%
R = q[0, 0] @ wK.T
e2 = (q[0, 0] @ k[0, 0].T + R.gather(1, distance)) / d**0.5
B = torch.zeros(n, 2 * clip + 1).scatter_add(1, distance, a)
z2 = a @ v[0, 0] + B @ wV
print(torch.allclose(e, e2, atol=1e-6), torch.allclose(z, z2, atol=1e-6))
with torch.no_grad():
    ours = Chain(relation=relation)(q, k, v).context[0, 0]
print(torch.allclose(ours, z, atol=1e-6))
print(R.numel(), "numbers instead of", pairs.numel())

# %% [markdown]
"""
For 9 words and a width of 16 that is **63** numbers instead of **1296**. For 1,000 words it is a
thousandth and less of the memory.

## Question

The dot product of two sinusoidal positions is the same to the left and to the right. How can a
model that has nothing else tell left from right? Try it: put a matrix between the two.
"""

# %%
print(f"left  {PE[10] @ T(1) @ PE[9]:.3f}")
print(f"right {PE[10] @ T(1) @ PE[11]:.3f}")

# %% [markdown]
"""
With T(1) between them the product is largest for the word on the left: T(1) PE[9] is PE[10]
itself, and the product is m / 2 = **8.000**. W_Q and W_K can learn such a matrix, so the direction
is in the weights, not in the positions.
"""
