# %% [markdown]
"""
# 9 · Long sequences

After this chapter you can say for each shortcut what it cannot see, and test it with a needle in a
haystack.

Attention compares each word with each: n² scores. For 50,000 words and 8 heads that are
**20,000,000,000**. Two things help. A *fast path* computes the same without storing them. A
*shortcut* computes less, and sees less.
"""

# %%
import torch

from regard import Chain, Dims, attend
from regard.parts import (
    BigBirdPattern,
    BlocksPattern,
    LinformerMemory,
    SlidingWindowPattern,
    TopKSelection,
)
from regard.plots import heatmap

print(f"{50_000**2 * 8:,}")
print(Chain().explain(50_000, n_heads=8))

# %% [markdown]
"""
The path *fused* goes through the scores block by block and keeps one number for each row. It is
exact. The map below has 4,096 rows and columns, and no more than the asked-for part is computed.
"""

# %%
torch.manual_seed(0)
n, d = 4096, 32
x = torch.randn(1, 1, n, d)
with torch.no_grad():
    lazy = Chain()(x, x, x).map
print(lazy.shape, lazy.tile(slice(0, 3), slice(0, 3)).shape)
part = lazy.row(4000)[0, 0]
whole = (x[0, 0, 4000] @ x[0, 0].T / d**0.5).softmax(-1)
print("the same:", torch.allclose(part, whole, atol=1e-6))

# %% [markdown]
"""
## A needle

One key is made to fit query 255 perfectly; all others are noise. Where it stands decides which
shortcut finds it. For each we ask how much weight query 255 gives to the needle.
"""


# %%
def found(chain: Chain, place: int) -> float:
    """The weight of query 255 on a needle at this place."""
    generator = torch.Generator().manual_seed(1)
    key = torch.randn(1, 1, 512, d, generator=generator)
    query = torch.randn(1, 1, 512, d, generator=generator)
    key[..., place, :] = 2 * query[..., 255, :]
    with torch.no_grad():
        return float(chain(query, key, key).map.row(255)[0, 0, place])


shortcuts = {
    "full": Chain(),
    "top_k": Chain(select=TopKSelection(count=8)),
    "sliding_window": Chain(pattern=SlidingWindowPattern(size=64)),
    "blocks": Chain(pattern=BlocksPattern(size=64)),
    "big_bird": Chain(pattern=BigBirdPattern(Dims(d_model=d), block=16)),
}
places = (5, 150, 250, 300, 400, 470)
print("needle at       ", "".join(f"{place:6}" for place in places))
for name, chain in shortcuts.items():
    cells = "".join(f"{found(chain, place):6.2f}" for place in places)
    print(f"{name:17}{cells}")

# %% [markdown]
"""
Full attention finds it anywhere. A window of ±64 finds it at 250 and 300 and gives exactly
**0.00** to all that is farther. Blocks of 64 end where the block ends: 250 is in the block of
query 255, and 300 is in the next one. BigBird reads its neighbours and the first block (here the
5), and a few blocks that were drawn once; what lies elsewhere it meets in the next layer only.

A sparse *pattern* saves time because it knows beforehand where not to look. *top_k* finds the
needle everywhere, since it looks at all scores first: it saves no scores.

## Few slots instead of many keys

*linformer* mixes all keys into a few slots by a learned matrix, and then attends to the slots. It
sees everything, but blurred: its map has slots as columns, and no key has a weight of its own.
With 32 slots for 512 keys there are **16** times fewer scores.
"""

# %%
memory = LinformerMemory(Dims(d_model=d, max_len=512), slots=32)
with torch.no_grad():
    short = Chain(memory=memory)(x[..., :512, :], x[..., :512, :], x[..., :512, :])
print(short.map.shape, short.map.columns)
print(512 * 512 // (512 * 32), "times fewer scores")

# %%
every = Dims(d_model=d)
seen = attend(x[0, 0, :128], x[0, 0, :128], x[0, 0, :128], BigBirdPattern(every, block=8))
heatmap((seen.map.dense() > 0).float(), meaning="may see")

# %% [markdown]
"""
## Question

A stack of layers with windows of ±64 reads 4,096 words. How many layers until the last word can
know of the first? And with one global block?
"""

# %%
print("window:", -(-(4096 - 1) // 64))
print("with a global block:", 2)

# %% [markdown]
"""
**64** layers, against two: the global block reads everything in the first layer, and is read by
everything in the second. That is why BigBird needs so few links.
"""
