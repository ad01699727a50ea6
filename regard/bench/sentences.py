"""Encodes Multi30k's raw files, and writes the same numbers in Joey NMT's format."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from regard.bench.sizes import CLIP, RATE, SEED, SMOOTHING, Size
from regard.data import Subwords, reader_for
from regard.data.corpus import Corpus, write_corpus
from regard.data.subword_kinds import SPECIALS
from regard.errors import DataError

FILES = ("train.en.gz", "train.de.gz")
ORIGIN = "https://github.com/multi30k/dataset (data/task1/raw)"
VOCABULARY = 8000


def english_german(folder: Path | None, out: Path, *, size: int = VOCABULARY) -> Corpus:
    """Learn a joint BPE from both files and encode them with it."""
    missing = [name for name in FILES if folder is None or not (folder / name).is_file()]
    if folder is None or missing:
        where = "none was given" if folder is None else f"'{folder}' has no {' and '.join(missing)}"
        raise DataError(
            f"bench train: --data takes a folder with {' and '.join(FILES)} of Multi30k; {where}. "
            f"They are at {ORIGIN}."
        )
    reader = reader_for([folder / name for name in FILES])
    texts = (text for each in reader.examples() for text in (each.source, *each.targets))
    subwords = Subwords.train(texts, size=size)
    return write_corpus(out, reader.examples(), subwords, subwords)


def write_for_joeynmt(
    corpus: Corpus,
    size: Size,
    out: Path,
    *,
    device: str = "cpu",
    epochs: Sequence[Sequence[np.ndarray]] | None = None,
) -> Path:
    """Write the corpus as text of one word a number, and a configuration, whose path it returns.

    Joey NMT then reads the same pieces of the same sentences, and its vocabulary is as large.

    Args:
        corpus: the training data.
        size: of the model.
        out: a folder that is made.
        device: cpu, or cuda in float16, the only half precision that it has.
        epochs: the rows of each batch of each epoch; it makes its own batches unless given.
    """
    out.mkdir(parents=True)
    for name, row in (("src", corpus.source), ("trg", corpus.target)):
        # its own end token comes behind every line, so ours goes
        lines = (" ".join(f"t{i}" for i in row(r)[:-1]) for r in range(len(corpus)))
        (out / f"train.{name}").write_text("\n".join(lines) + "\n", encoding="utf-8")
    words = [f"t{i}" for i in range(len(SPECIALS), size.n_tokens)]
    (out / "vocabulary.txt").write_text("\n".join(words) + "\n", encoding="utf-8")
    path = out / "joeynmt.json"
    asked = _configuration(size, out) | {"use_cuda": device == "cuda", "fp16": device == "cuda"}
    if epochs is not None:
        asked["batches"] = [[rows.tolist() for rows in epoch] for epoch in epochs]
    path.write_text(json.dumps(asked))
    return path


def _configuration(size: Size, out: Path) -> dict[str, object]:
    encoder, decoder = size.joeynmt()
    return {
        "name": "bench",
        "model_dir": str(out),
        "random_seed": SEED,
        "data": {
            "train": str(out / "train"),
            "dataset_type": "plain",
            "src": _language("src", out),
            "trg": _language("trg", out),
        },
        "model": {
            "initializer": "xavier_uniform",
            "embed_initializer": "normal",
            "embed_init_weight": size.d_embedding**-0.5,
            "tied_embeddings": True,
            "tied_softmax": True,
            "encoder": encoder,
            "decoder": decoder,
        },
        "training": {
            "optimizer": "adam",
            "adam_betas": [0.9, 0.98],
            "learning_rate": RATE,
            "learning_rate_min": 0.0,
            "learning_rate_warmup": 1,
            "scheduling": "warmupinversesquareroot",
            "clip_grad_norm": CLIP,
            "label_smoothing": SMOOTHING,
            "normalization": "tokens",
            "batch_size": size.batch_tokens,
            "batch_type": "token",
            "epochs": 1000,
            "logging_freq": 100000,
            "validation_freq": 100000,
        },
        "testing": {"batch_size": 1},
    }


def _language(name: str, out: Path) -> dict[str, object]:
    return {"lang": name, "level": "word", "voc_file": str(out / "vocabulary.txt")}
