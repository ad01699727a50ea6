# %% [markdown]
"""
# 8 · The Transformer, from its parts

After this chapter you can put an encoder layer together from attention, feed-forward, norm and
residual, and train a small Transformer until it reads each unseen date right.

    y = x + attention(norm(x)),   out = y + feed_forward(norm(y))
"""

# %%
import torch

import regard
from regard import Dims, multi_head
from regard.layers import PreNorm
from regard.parts import EncoderLayer, FeedForward, Norm
from regard.plots import record_map

torch.manual_seed(0)
dims = Dims(d_model=32, n_heads=2)
layer = EncoderLayer(
    attention=multi_head(dims),
    feed_forward=FeedForward(dims, d_hidden=64),
    around_attention=PreNorm(dims),
    around_feed_forward=PreNorm(dims),
)
x = torch.randn(2, 7, 32)
for name, part in layer.named_children():
    print(f"{name:20} {sum(weight.numel() for weight in part.parameters()):6,} parameters")

# %% [markdown]
"""
## Its equation, written out

The four projections of attention take 4 · 32² = **4,096** numbers, the feed-forward 2 · 32 · 64
and its biases, **4,192**. The whole layer is two lines, and both ways give the same numbers.
"""

# %%
y = x + layer.attention(layer.around_attention.norm(x)).context
by_hand = y + layer.feed_forward(layer.around_feed_forward.norm(y))
print(torch.allclose(by_hand, layer(x), atol=1e-6))

# %% [markdown]
"""
## What each part is for

*Attention* moves information between words; the *feed-forward* works on each word alone. The
*residual* lets a layer add to what is there, so that the gradient has a straight way back. The
*norm* gives each word mean 0 and variance 1, so that no layer depends on the sizes of another's
outputs.
"""

# %%
z = Norm(dims)(100 * x + 7)
print(f"mean {z.mean(-1).abs().max():.1f}, variance {z.var(-1, unbiased=False).mean():.1f}")

# %% [markdown]
"""
## Training on dates

Now a whole model: one encoder layer and one decoder layer. It reads a date as people write it in
English and writes it as numbers, letter by letter. A recipe is a table; `regard.train` makes a
run. The days of validation are in no training example.
"""

# %%
days = {"name": "dates", "languages": ["en"], "first_year": 2000, "last_year": 2029}
recipe = {
    "data": {"train": {**days, "count": 6000}, "valid": {**days, "count": 200}, "max_tokens": 64},
    "tokens": {"kind": "characters", "size": 200},
    "model": {
        "d_model": 32,
        "n_heads": 2,
        "d_hidden": 64,
        "n_encoder_layers": 1,
        "n_decoder_layers": 1,
        "positions": "rotary",
        "norm": "pre_norm",
        "dropout": 0.0,
    },
    "training": {
        "steps": 600,
        "target_tokens_per_update": 1024,
        "target_tokens_per_batch": 1024,
        "schedule": "cosine",
        "learning_rate": 6e-3,
        "warmup_steps": 20,
        "label_smoothing": 0.0,
        "validate_every": 600,
        "checkpoint_every": 600,
    },
}
run = regard.train(recipe, "dates", device="cpu")
print(f"{sum(weight.numel() for weight in run.model.parameters()):,} parameters")

# %% [markdown]
"""
## Is it right?

Of 200 unseen days it writes **100 %** right to the letter.
"""

# %%
report = run.evaluate(split="valid", metrics=["exact"], beam=1)
print(f"{report.scores[0].value:.0f} % of {report.sentences}")
print(run.predict(["Thursday, May 9, 2024"])[0].text)

# %% [markdown]
"""
## Where did it look?

`look` shows which letters of the date were read when a letter of the answer was written.
"""

# %%
record_map(run.look("May 9, 2024"))

# %% [markdown]
"""
## Question

The data never say that months have names. How does it write 05 for "May"? Ask for months that do
not exist, and see which letters it goes by.
"""

# %%
for text in ("Mau 9, 2024", "Nay 9, 2024", "Jun 9, 2024"):
    print(text, "→", run.predict([text])[0].text)

# %% [markdown]
"""
A word that is no month gets a month all the same, by those of its letters that told months apart in
training. The model has no way to say that it does not know: no example ever did.
"""
