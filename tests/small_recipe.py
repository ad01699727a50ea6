"""A recipe that learns in a second, for tests that need a run."""

RECIPE = """\
[data]
train = { name = "reverse", count = 300 }
valid = { name = "reverse", count = 20 }

[tokens]
kind = "words"
size = 32

[model]
size = "tiny"
d_model = 16
d_hidden = 16
dropout = 0.1
max_len = 20

[training]
steps = 24
target_tokens_per_update = 200
target_tokens_per_batch = 100
warmup_steps = 5
checkpoint_every = 4
keep_checkpoints = 2
validate_every = 8
validate_examples = 10
"""
