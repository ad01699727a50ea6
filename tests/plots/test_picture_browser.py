"""The page of captioned pictures in a real browser: what its script draws and says is Python's."""

import json

import numpy as np
import pytest
import torch

from regard.data.framings import Framing
from regard.plots.colours import colour
from regard.plots.overlays import OVERLAYS
from regard.plots.picture_page import picture_page
from tests.inspecting.captions_by_hand import captioned, grey_picture, random_maps, written
from tests.oracles.boxes import cell_box

pytestmark = pytest.mark.browser

CLOSE = 5.1e-5
"""Half of the last decimal that the page shows."""
LONGER = 800
"""Pixels of the longer side of the picture that is drawn."""
ASK = """<script>
const words = () => [...document.querySelectorAll(".line button")];
const press = (name) => document.activeElement.dispatchEvent(
  new KeyboardEvent("keydown", { key: name, bubbles: true }));
const drawn = (word) => {
  words()[word].dispatchEvent(new Event("pointerenter"));
  const canvas = document.querySelector(".stage canvas");
  return [canvas, canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data];
};
addEventListener("load", () => {
  const answer = document.createElement("pre");
  answer.id = "answer";
  try { answer.textContent = JSON.stringify((() => { %s })()); }
  catch (error) { answer.textContent = JSON.stringify(String(error)); }
  document.body.append(answer);
});
</script>"""


def _opened(offline, page, folder, fragment=""):
    """The page, opened from disk with the network off."""
    (folder / "page.html").write_text(page, encoding="utf-8")
    return offline(f"{folder / 'page.html'}{fragment}")


def _asked(offline, page, folder, question, fragment=""):
    """What a script that stands in the page answers when all is there."""
    asking = page.replace("</main>", f"</main>{ASK % question}")
    return json.loads(_opened(offline, asking, folder, fragment).inner_text("#answer"))


CHANGED = """
const [canvas, dark] = drawn(0);
return words().map((_, word) => {
  const lit = drawn(word)[1];
  let box = [1e9, 1e9, 0, 0], count = 0;
  for (let i = 0; i < lit.length; i += 4) {
    if ([0, 1, 2].every((c) => lit[i + c] === dark[i + c])) continue;
    const x = i / 4 % canvas.width, y = Math.floor(i / 4 / canvas.width);
    box = [Math.min(box[0], x), Math.min(box[1], y),
      Math.max(box[2], x + 1), Math.max(box[3], y + 1)];
    count += 1;
  }
  return { box, count, size: [canvas.width, canvas.height] };
});"""


@pytest.mark.parametrize("frame", [Framing.cropped, Framing.squeezed])
def test_a_marked_cell_lights_its_place_of_the_original_and_nothing_else(frame, offline, tmp_path):
    picture, framing = grey_picture(width=96, height=64), frame(96, 64, 32)
    cells = [(3, 3), (0, 0), (1, 2)]
    lit = [torch.eye(16)[4 * row + column] for row, column in cells]
    maps = torch.stack([torch.zeros(16), *lit, torch.zeros(16)])
    words = written("nothing", "last", "first", "middle")
    record = captioned([[maps]], words, picture=picture, framing=framing)
    nothing, *got = _asked(offline, picture_page([record], overlay="cells"), tmp_path, CHANGED)
    assert nothing["count"] == 0
    for (row, column), changed in zip(cells, got, strict=True):
        wide, high = changed["size"]
        assert (wide, high) == (LONGER, round(LONGER * 64 / 96))
        scale = np.array([wide / 96, high / 64] * 2)
        # halves go up, as they do in the browser
        box = np.floor(np.array(cell_box(framing, row, column, 4)) * scale + 0.5).tolist()
        assert changed["box"] == box
        assert changed["count"] == (box[2] - box[0]) * (box[3] - box[1])


@pytest.mark.parametrize("name", list(OVERLAYS))
def test_what_is_drawn_has_python_s_colours(name, offline, tmp_path):
    record = captioned([[random_maps(3, 16)]], written("a", "dog"))
    places = [(200, 70), (333, 200), (450, 100), (600, 500), (470, 333)]
    script = f"""
const [canvas, all] = drawn(1);
return {json.dumps(places)}.map(([x, y]) => 4 * (y * canvas.width + x))
  .map((i) => [...all.slice(i, i + 3)]);"""
    got = _asked(offline, picture_page([record], overlay=name), tmp_path, script)
    overlay = OVERLAYS[name]
    cells = overlay.shape(record.maps()[1].double().numpy())
    ground = overlay.ground(record.picture.pixels)[0, 0].astype(float)
    for (x, y), seen in zip(places, got, strict=True):
        # the picture of 90 by 60 pixels is drawn 800 wide; the model saw from 15 to 75
        across, down = (x + 0.5) * 90 / 800 - 15, (y + 0.5) * 60 / 533
        i, j = int(down / 60 * len(cells)), int(across / 60 * len(cells))
        share = cells[i, j] / cells.max()
        density = float(overlay.density(np.array([[share]]))[0, 0])
        want = ground * (1 - density) + np.array(colour(overlay.ramp, share)) * density
        np.testing.assert_allclose(seen, want, atol=5)


def test_arrow_keys_walk_enter_keeps_and_escape_lets_go(offline, tmp_path):
    record = captioned(
        [[random_maps(4, 16)]], written("a", "red", "dog"), gates=(0.1, 0.2, 0.3, 1.0)
    )
    script = """
const text = () => document.querySelector(".readout").textContent.replace(/[\u2068\u2069]/g, "");
const said = () => text().split(" looks")[0];
const out = [];
words()[0].focus(); out.push(said());
press("ArrowRight"); out.push(said(), document.activeElement.textContent);
press("End"); out.push(said());
press("ArrowRight"); out.push(said());
press("Home"); out.push(said());
press("Escape");
words()[1].click();
out.push(words().map((word) => word.getAttribute("aria-pressed")));
press("Escape"); out.push(said());
out.push(document.querySelector(".stage").classList.contains("alone"));
out.push(words().filter((word) => word.tabIndex === 0).length);
return out;"""
    got = _asked(offline, picture_page([record]), tmp_path, script)
    assert got[:6] == ["“a”", "“red”", "red", "“dog”", "“dog”", "“a”"]
    assert got[6] == ["false", "true", "false"]
    assert got[7:] == ["The picture alone; choose a word.", True, 1]


@pytest.mark.parametrize(
    ("fragment", "layer", "head"),
    [("", None, None), ("#layer=2&head=1", 1, 0), ("#head=3", None, 2)],
)
def test_tables_and_titles_are_python_s(fragment, layer, head, offline, tmp_path):
    maps = random_maps(2, 3, 3, 16)
    record = captioned(
        [list(heads) for heads in maps], written("a", "dog"), gates=(0.125, 0.5, 1.0)
    )
    script = """
document.querySelector("details").open = true;
words()[1].focus();
const texts = (where, what) => [...document.querySelectorAll(`${where} ${what}`)]
  .map((one) => one.textContent);
return { words: texts(".table-of-words", "td"), title: texts(".table-of-words", "caption"),
  cells: texts(".table-of-cells", "td"), shown: texts(".title", ""),
  numbers: texts(".numbers", "dd") };"""
    got = _asked(offline, picture_page([record]), tmp_path, script, fragment)
    assert got["title"] == got["shown"] == [record.title(layer, head)]
    heaviest = record.maps(layer, head).flatten(1).max(-1).values.tolist()
    entropies = record.entropies(layer, head).tolist()
    numbers = [float(text) for text in got["words"] if not text.startswith("row")]
    want = [one for row in zip((0.125, 0.5), entropies, heaviest, strict=True) for one in row]
    assert numbers == pytest.approx(want, abs=CLOSE)
    cells = [float(text) for text in got["cells"]]
    assert cells == pytest.approx(record.maps(layer, head)[1].flatten().tolist(), abs=CLOSE)
    assert got["numbers"][0] == "0.5000"
    assert float(got["numbers"][1].split()[0]) == pytest.approx(entropies[1], abs=CLOSE)


def test_hostile_names_are_shown_and_do_nothing(offline, tmp_path):
    hostile = "<img src=x onerror=\"document.title='caught'\">"
    record = captioned([[random_maps(2, 16)]], written(hostile), picture=grey_picture(hostile))
    shown = _opened(offline, picture_page([record]), tmp_path).content()
    assert "<title>caught" not in shown
    assert shown.count("<img") == 1
    assert "“\u2068&lt;img src=x" in shown
