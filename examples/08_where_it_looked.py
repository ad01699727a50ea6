"""Where a run looked while it answered: the record, its maps, and a page that needs no server.

Expected output, among other lines:

    Record('a b c d' → 'a b c d', attention: encoder, decoder, cross)
    a looked most at a
"""

import sys
import tempfile
from pathlib import Path

import regard
from regard.plots import look_page

with tempfile.TemporaryDirectory() as folder:
    changes = [
        "training.steps=150",
        "training.warmup_steps=20",
        "data.train.count=2000",
        "training.validate_every=150",
        "training.checkpoint_every=150",
    ]
    run = regard.train("copy", f"{folder}/run", changes=changes)
    record = run.look("a b c d")
    print(record)
    panel = record.panel()
    for word, row in zip(panel.queries, panel.weights, strict=True):
        print(f"{word:>8} looked most at {panel.keys[int(row.argmax())]} ({row.max():.2f})")
    page = Path(sys.argv[1] if len(sys.argv) > 1 else "look.html")
    page.write_text(look_page(record), encoding="utf-8")
    print(f"{page}: {page.stat().st_size / 1000:.0f} kB")
