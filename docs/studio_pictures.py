"""Pictures of the studio for its page: every view of real runs, light and dark.

python docs/studio_pictures.py TEXT_RUN OTHER_TEXT_RUN CAPTION_RUN
python docs/studio_pictures.py TEXT_RUN OTHER_TEXT_RUN CAPTION_RUN --sizes FOLDER

The first line makes those of the page, as a window of 1,280 by 800 shows them. The second makes
every view at three sizes, to be looked at before a change of the page is kept. The gold view needs
links that are known: a small Transformer is trained on made sentences for it, in a minute. Without
runs only this view is drawn.
"""

import argparse
import itertools
import os
import random
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from io import BytesIO
from pathlib import Path
from urllib.parse import urlencode

from PIL import Image
from playwright.sync_api import Browser, sync_playwright

from regard.data import Example
from regard.evaluating import Gold
from regard.recipes import read_recipe
from regard.serving import build_app, open_runs
from regard.serving.registry import GoldPairs, Registry
from regard.serving.server import running
from regard.training import run

OUT = Path(__file__).parent / "img" / "studio"
TEXT = "Mittwoch, 9. Mai 2029"
LONG = " ".join(["Mittwoch, 9. Mai 2029", "dom., 4 de fev. de 2080", "mer. 12 janv. 2056"] * 6)
Wanted = Mapping[str, tuple[str, Mapping[str, object]]]
VIEWS: Wanted = {
    "translate": (".map canvas", {"text": TEXT, "pin": "q10"}),
    "heads": (".heads canvas", {"text": TEXT, "kind": "encoder", "picture": "heads"}),
    "links": (".links path", {"text": TEXT, "unit": "words", "picture": "links", "pin": "q5"}),
    "worked": (".stage input", {"scaled": "on", "edits": "X.0.1.2~4"}),
    "mechanisms": (".side-by-side canvas", {"text": TEXT, "kind": "encoder", "layer": 2}),
    "captions": (".photo canvas", {"smooth": "on"}),
    "atlas": (".far", {"text": LONG, "target": "2029-05-09", "kind": "encoder", "layer": 2}),
    "gold": (".map canvas", {"run": "en-fr", "pair": 1}),
    "compare": (".pane:nth-child(2) canvas", {"text": TEXT}),
    "training": (".chart svg", {}),
    "tour": (".spot", {"text": TEXT, "tour": 3}),
}
PLACES = {"translate": "answer", "heads": "answer", "links": "answer", "tour": "answer"}
WINDOW = (1280, 800)
SIZES = (WINDOW, (1920, 1080), (390, 844))
"""Windows of a laptop, of a large screen and of a phone."""

NOUNS = {"cat": "chat", "dog": "chien", "horse": "cheval", "wolf": "loup", "rabbit": "lapin"}
ADJECTIVES = {"green": "vert", "calm": "calme", "sad": "triste", "timid": "timide", "grey": "gris"}
VERBS = {"sees": "voit", "looks for": "cherche", "finds": "trouve", "loves": "aime"}
ARTICLES = {"the": "le", "a": "un"}
N_TRAIN, N_VALID, N_GOLD = 3000, 50, 20
RECIPE = """\
[data]
train = {{ name = "tsv", path = "{folder}/train.tsv" }}
valid = {{ name = "tsv", path = "{folder}/valid.tsv" }}

[tokens]
kind = "words"
size = 64

[model]
d_model = 64
n_heads = 4
d_hidden = 128
n_encoder_layers = 1
n_decoder_layers = 2
dropout = 0.0
norm = "pre_norm"
max_len = 32

[training]
steps = 400
target_tokens_per_update = 512
target_tokens_per_batch = 512
schedule = "cosine"
learning_rate = 3e-3
warmup_steps = 40
validate_every = 400
validate_examples = {n_valid}
"""


def sentences() -> Iterator[tuple[Example, Gold]]:
    """English and French of the same, in some order, with the links between their words."""
    things = list(itertools.product(ARTICLES, ADJECTIVES, NOUNS))
    said = [(*left, verb, *right) for left in things for verb in VERBS for right in things]
    random.Random(1).shuffle(said)
    for article, adjective, noun, verb, article_2, adjective_2, noun_2 in said:
        source = f"{article} {adjective} {noun} {verb} {article_2} {adjective_2} {noun_2}"
        target = (
            f"{ARTICLES[article]} {NOUNS[noun]} {ADJECTIVES[adjective]} {VERBS[verb]} "
            f"{ARTICLES[article_2]} {NOUNS[noun_2]} {ADJECTIVES[adjective_2]}"
        )
        # a noun comes before what is said of it; a verb may have two words
        verbs = len(verb.split())
        before = {(0, 0), (1, 2), (2, 1), *((3 + i, 3) for i in range(verbs))}
        after = {(3 + verbs, 4), (4 + verbs, 6), (5 + verbs, 5)}
        yield Example(source, (target,)), Gold(frozenset(before | after))


def aligned(folder: Path) -> tuple[Path, GoldPairs]:
    """A run that was trained on such sentences, and others whose links are known."""
    made = list(itertools.islice(sentences(), N_TRAIN + N_VALID + N_GOLD))
    parts = {"train": made[:N_TRAIN], "valid": made[N_TRAIN : N_TRAIN + N_VALID]}
    for name, part in parts.items():
        lines = (f"{pair.source}\t{pair.targets[0]}\n" for pair, _ in part)
        (folder / f"{name}.tsv").write_text("".join(lines), encoding="utf-8")
    recipe = RECIPE.format(folder=folder, n_valid=N_VALID)
    (folder / "recipe.toml").write_text(recipe, encoding="utf-8")
    list(run(read_recipe(folder / "recipe.toml"), folder / "en-fr"))
    # first those whose verb has two words
    known = sorted(made[-N_GOLD:], key=lambda one: -len(one[0].source.split()))
    pairs, links = zip(*known, strict=True)
    return folder / "en-fr", GoldPairs(pairs, links)


def main() -> None:
    """Draw them."""
    read = argparse.ArgumentParser(description=__doc__)
    read.add_argument("runs", nargs="*", type=Path)
    read.add_argument("--sizes", type=Path, help="A folder for pictures at three sizes.")
    given = read.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        words, gold = aligned(Path(folder))
        registry = open_runs([*given.runs, words], device="cpu", gold=gold)
        views = VIEWS if given.runs else {"gold": VIEWS["gold"]}
        _show(registry, views, given.sizes)


def _show(registry: Registry, views: Wanted, folder: Path | None) -> None:
    out = folder or OUT
    out.mkdir(parents=True, exist_ok=True)
    path = os.environ.get("CHROMIUM") or shutil.which("chromium")
    with running(build_app(registry)) as address, sync_playwright() as play:
        browser = play.chromium.launch(executable_path=path, args=["--no-sandbox"])
        for size in SIZES if folder else (WINDOW,):
            for theme in ("light", "dark"):
                end = f"{size[0]}-{theme}" if folder else theme
                for name, picture in _drawn(browser, address, theme, views, size):
                    picture.save(out / f"{name}-{end}.png", optimize=True)
                    print(f"{name} {end}")
        browser.close()


def _drawn(
    browser: Browser, address: str, theme: str, views: Wanted, size: tuple[int, int]
) -> Iterator[tuple[str, Image.Image]]:
    """Each view as the window shows it."""
    context = browser.new_context(
        viewport={"width": size[0], "height": size[1]},
        color_scheme="dark" if theme == "dark" else "light",
        reduced_motion="reduce",
    )
    page = context.new_page()
    page.set_default_timeout(120_000)
    for name, (whole, wishes) in views.items():
        page.goto("about:blank")
        page.goto(f"{address}#/{PLACES.get(name, name)}?{urlencode(wishes)}")
        page.wait_for_selector(whole)
        page.wait_for_load_state("networkidle")
        page.wait_for_timeout(500)
        yield name, Image.open(BytesIO(page.screenshot())).convert("RGB")
    context.close()


if __name__ == "__main__":
    main()
