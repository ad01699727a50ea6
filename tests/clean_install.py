"""Install the wheel in clean environments outside the checkout, and use it as a user would.

    python tests/clean_install.py [--python PYTHON] [EXTRA …]

The first environment holds the wheel alone. Each extra has an environment of its own on top of it
and is tried by the verbs that it is for; before, a verb that lacks its extra has to say which.
What fails is printed with what it said, and the exit code is 1.
"""

import argparse
import json
import os
import shlex
import struct
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
SHORT = (
    "--set training.steps={} --set training.warmup_steps=5 --set training.validate_every=20 "
    "--set training.checkpoint_every=20"
)
SMALLER = "--set data.train.count=2000 --set data.valid.count=50"

ALONE = (
    "regard --version",
    "regard list",
    "regard explain worked",
    "regard explain big_bird",
    "regard recipe",
    "regard recipe copy",
    "regard learn",
    "regard learn 1",
    f"regard demo --out demo {SHORT.format(20)} {SMALLER} --set data.test.count=50",
    f"regard train copy --out copy {SHORT.format(40)} {SMALLER}",
    "regard predict copy --text 'd e f a'",
    "regard evaluate copy --split valid",
    "regard look copy 'd e f a'",
    "regard look copy 'd e f a' --out look.html",
    "regard doctor pairs.tsv",
    "regard new pairs.tsv --out mine.toml",
    f"regard train mine.toml --out mine {SHORT.format(20)}",
    "regard predict mine --text 'one two'",
)
"""What the wheel does by itself."""

REFUSED = {
    "regard look copy 'd e f a' --out look.png": "regard[plots]",
    "regard serve copy": "regard[serve]",
    "python -c 'import regard.client'": "regard[client]",
    "regard new photos captions.jsonl --out photos.toml": "regard[captions]",
    "regard look --model bert 'one two'": "regard[transformers]",
    "regard export copy --to ctranslate2 --out copy-ct2": "regard[ctranslate2]",
    "regard export copy --to onnx --out copy-onnx": "regard[onnx]",
    "regard train lora.toml --out lora": "regard[peft]",
    "regard train hub.toml --out from-hub": "regard[huggingface]",
}
"""Verbs that need an extra, and the extra that they have to name."""

MAKE_BERT = """
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast
words = {word: place for place, word in enumerate(["[PAD]", "[UNK]", "one", "two", "three"])}
tokenizer = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
PreTrainedTokenizerFast(
    tokenizer_object=tokenizer, unk_token="[UNK]", pad_token="[PAD]"
).save_pretrained("bert")
sizes = dict(hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=16)
BertModel(BertConfig(vocab_size=5, **sizes)).save_pretrained("bert")
"""

ASK_SERVER = """
import subprocess, sys, urllib.request
words = [sys.executable, "-m", "regard", "serve", "copy", "--port", "0"]
with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as server:
    address = next(word for word in server.stdout.readline().split() if word.startswith("http"))
    said = urllib.request.urlopen(address.rstrip("/") + "/health").read()
    page = urllib.request.urlopen(address).read()
    server.terminate()
print(said, len(page))
"""

HUB = """
[data]
train = "huggingface:name=hub,split=train,source=a,target=b"
valid = "held_out"

[model]
size = "tiny"

[training]
steps = 5
"""

EXTRAS: Mapping[str, Sequence[str]] = {
    "plots": (
        "regard look copy 'd e f a' --out look.png",
        "regard look copy 'd e f a' --kind encoder --heads --out heads.pdf",
        "regard learn 3",
    ),
    "serve": ("python ask_server.py",),
    "client": ("python -c 'import regard.client; print(regard.Client)'",),
    "captions": (
        "regard new photos captions.jsonl --out photos.toml --no-plan",
        f"regard train photos.toml --out photos-run {SHORT.format(3)} "
        "--set model.encoder=efficientnet_lite0 --set model.picture_size=64",
        "regard predict photos-run photos/1.png",
    ),
    "transformers": (
        "python make_bert.py",
        "regard look --model bert 'one two three one'",
        "regard export copy --to huggingface --out copy-hf",
    ),
    "huggingface": (f"regard train hub.toml --out from-hub {SHORT.format(3)}",),
    "peft": (f"regard train lora.toml --out lora {SHORT.format(3)}",),
    "ctranslate2": (
        "regard export copy --to ctranslate2 --out copy-ct2",
        "regard predict copy --engine ctranslate2 --text 'd e f a'",
    ),
    "onnx": ("regard export copy --to onnx --out copy-onnx",),
    "ray": ("python -c 'import ray; print(ray.__version__)'",),
    "bench": ("regard bench decode --size tiny --sentences 2 --length 4 --turns 1",),
}
"""What each extra is for; `test`, `check` and `site` are for the checkout."""


def main() -> int:
    """Try the wheel alone, then the extras that are named, or all."""
    reads = argparse.ArgumentParser(description=__doc__)
    reads.add_argument("extras", nargs="*", metavar="EXTRA", help=", ".join(EXTRAS))
    reads.add_argument("--python", default=sys.executable, help="the interpreter to install for")
    given = reads.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        built, work = place / "dist", place / "work"
        # the packages that build are those of this environment
        words = ["-m", "build", "--wheel", "--no-isolation", "-o", str(built), str(ROOT)]
        _checked([sys.executable, *words])
        (wheel,) = built.glob("*.whl")
        _write_inputs(work)
        alone = _environment(place / "alone", given.python, str(wheel))
        failed = [one for one in ALONE if not _works(one, alone, work)]
        failed += [one for one, extra in REFUSED.items() if not _names(extra, one, alone, work)]
        for extra in given.extras or EXTRAS:
            own = _environment(place / extra, given.python, f"{wheel}[{extra}]", base=alone)
            failed += [one for one in EXTRAS[extra] if not _works(one, own, work)]
    print(f"{len(failed)} failed: {'; '.join(failed)}" if failed else "everything works")
    return bool(failed)


def _environment(place: Path, python: str, wheel: str, *, base: Path | None = None) -> Path:
    """The programs of a new environment that has a wheel, and all that a base has."""
    began = time.monotonic()
    _checked([python, "-m", "venv", str(place)])
    pip = [str(place / "bin/python"), "-m", "pip", "install", "--quiet"]
    if base is not None:
        (borrowed,) = (base.parent / "lib").glob("python*/site-packages")
        (site,) = (place / "lib").glob("python*/site-packages")
        (site / "borrowed.pth").write_text(f"{borrowed}\n")
        # the program `regard` is to be this environment's
        _checked([*pip, "--no-deps", "--ignore-installed", wheel.partition("[")[0]])
    _checked([*pip, "-c", str(ROOT / "constraints.txt"), wheel])
    print(f"{place.name}: installed in {time.monotonic() - began:.0f} s", flush=True)
    return place / "bin"


def _works(command: str, programs: Path, work: Path) -> bool:
    """Whether a command ends well and says something."""
    began = time.monotonic()
    done = _done(command, programs, work)
    works = done.returncode == 0 and bool((done.stdout + done.stderr).strip())
    print(f"  {time.monotonic() - began:5.1f} s  {command}", flush=True)
    return works or _told(done)


def _names(extra: str, command: str, programs: Path, work: Path) -> bool:
    """Whether a command is refused, with the extra that it lacks and without a traceback."""
    done = _done(command, programs, work)
    is_told = f"'{extra}'" in done.stderr and (
        done.returncode == 2 or command.startswith("python ")
    )
    print(f"  {done.returncode}  {command}", flush=True)
    return is_told or _told(done)


def _done(command: str, programs: Path, work: Path) -> subprocess.CompletedProcess[str]:
    program, *words = shlex.split(command)
    env = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "HF_HUB_OFFLINE": "1"}
    env.pop("PYTHONPATH", None)
    return subprocess.run(
        [str(programs / program), *words], cwd=work, env=env, capture_output=True, text=True
    )


def _told(done: subprocess.CompletedProcess[str]) -> bool:
    print(f"exit {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-3000:]}", flush=True)
    return False


def _checked(words: Sequence[str]) -> None:
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{shlex.join(words)}\n{done.stdout}\n{done.stderr}")


def _write_inputs(work: Path) -> None:
    """The files that the commands read."""
    (work / "photos").mkdir(parents=True)
    (work / "hub").mkdir()
    numbers = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
    pairs = [(f"{a} {b}", f"{b} and {a}") for a in numbers for b in numbers]
    _write(work / "pairs.tsv", *("\t".join(pair) for pair in pairs))
    _write(work / "hub/train.jsonl", *(json.dumps({"a": a, "b": b}) for a, b in pairs))
    captions = []
    for n in range(20):
        _write_picture(work / f"photos/{n}.png", grey=12 * n)
        captions.append(json.dumps({"image": f"{n}.png", "captions": [numbers[n // 2]]}))
    _write(work / "captions.jsonl", *captions)
    _write(work / "make_bert.py", MAKE_BERT)
    _write(work / "ask_server.py", ASK_SERVER)
    _write(work / "hub.toml", HUB)
    # a folder of a model, which make_bert.py fills
    (work / "bert").mkdir()
    _write(work / "bert/config.json", '{"model_type": "bert"}')
    (work / "bert/model.safetensors").write_bytes(struct.pack("<Q", 2) + b"{}")
    copy = (ROOT / "recipes/copy.toml").read_text()
    adapters = 'start_from = "copy"\nlora = { rank = 2 }\n'
    _write(work / "lora.toml", copy.replace("[training]\n", f"[training]\n{adapters}"))


def _write(path: Path, *lines: str) -> None:
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _write_picture(path: Path, *, grey: int) -> None:
    """A grey picture of 32 x 32 pixels as PNG, for which no package is needed."""
    header = struct.pack(">IIBBBBB", 32, 32, 8, 0, 0, 0, 0)
    rows = zlib.compress((b"\0" + bytes([grey]) * 32) * 32)
    chunks = ((b"IHDR", header), (b"IDAT", rows), (b"IEND", b""))
    made = (
        struct.pack(">I", len(held)) + kind + held + struct.pack(">I", zlib.crc32(kind + held))
        for kind, held in chunks
    )
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(made))


if __name__ == "__main__":
    sys.exit(main())
