"""A training from Python: a shipped recipe with two keys changed, and the run it makes.

Expected output, among other lines:

    Trained(
    a b c
    d e f
"""

import tempfile

import regard

with tempfile.TemporaryDirectory() as folder:
    changes = [
        "training.steps=150",
        "training.warmup_steps=20",
        "data.train.count=2000",
        "training.validate_every=150",
        "training.checkpoint_every=150",
    ]
    run = regard.train("copy", f"{folder}/run", changes=changes)
    print(run)
    for answer in run.predict(["a b c", "d e f"]):
        print(answer.text, f"{answer.score:.3f}")
    print(run.evaluate(split="valid", metrics=["exact"]))
