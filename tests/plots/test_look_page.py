"""The page of a record: one file, the record's own numbers, and tokens that stay text."""

import json
import re
from html.parser import HTMLParser

import pytest
import torch
from torch.testing import assert_close

from regard.inspecting.panels import View
from regard.plots import look_page
from regard.plots.page import POLICY
from regard.plots.scripts import DRAWING, joined_script
from tests.inspecting.hand_made import of_a_model, tokens, written_down

HOSTILE = "</script><b>&amp;\u2028<!--"
VENDOR = "".join(
    path.read_text().strip() for path in sorted((DRAWING / "vendor").glob("*")) if path.is_file()
)
SCRIPTS = [DRAWING.parent / "look_page.js", *DRAWING.glob("*.js")]


class Page(HTMLParser):
    """The tags of a page, and the text inside its scripts and elsewhere."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.scripts, self.texts, self.inside = [], [], [], None
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.inside = tag

    def handle_endtag(self, tag):
        self.inside = None

    def handle_data(self, data):
        (self.scripts if self.inside == "script" else self.texts).append(data)

    def data(self):
        return json.loads(self.scripts[0])

    def count(self, tag):
        return sum(name == tag for name, _ in self.tags)


@pytest.fixture(scope="module")
def record():
    torch.manual_seed(5)
    return of_a_model()[0]


@pytest.fixture(scope="module")
def page(record):
    return look_page(record)


def test_the_page_holds_the_record_s_numbers_and_names(record, page):
    held = Page(page).data()["record"]
    assert (held["source"], held["target"]) == (record.source, record.target)
    for kind, one in record.attention.items():
        side = held["attention"][kind]
        assert tuple(side["queries"]["names"]) == one.queries.names
        assert tuple(side["keys"]["words"]) == one.keys.words
        assert (side["mechanism"], side["mask"]) == (one.mechanism, one.mask)
        for layer in range(len(one.layers)):
            for head in range(one.n_heads):
                got = torch.tensor(side["weights"][layer][head])
                assert_close(got, record.weights(kind, layer, head), atol=1e-6, rtol=0)


def test_the_page_says_how_each_kind_looks_and_who_may_see_whom(page):
    assert "decoder: scaled_dot, soft. Who may see whom: causal" in page


def test_readers_without_scripts_get_the_first_view_as_a_table(record, page):
    inside = re.search(r"<noscript>(.*?)</noscript>", page, re.DOTALL)
    assert inside is not None
    cells = re.findall(r"<td>([\d.]+)</td>", inside[1])
    want = [f"{weight:.4f}" for row in record.words("cross").tolist() for weight in row]
    assert cells == want


def test_the_page_begins_with_the_view_that_was_asked_for(record):
    data = Page(look_page(record, View("decoder", 1, 0, "pieces"))).data()
    assert data["view"] == {"kind": "decoder", "layer": 1, "head": 0, "unit": "pieces"}


def test_hostile_tokens_stay_text():
    keys = tokens(HOSTILE, "dog")
    record = written_down([[[0.3, 0.7]]], queries=tokens("<img src=x>"), keys=keys)
    page = look_page(record)
    read, harmless = Page(page), Page(look_page(_innocent()))
    assert [tag for tag, _ in read.tags] == [tag for tag, _ in harmless.tags]
    held = read.data()["record"]["attention"]["cross"]
    assert held["keys"]["pieces"] == [HOSTILE, "dog"]
    assert f"{HOSTILE} dog" in read.texts
    assert read.count("script") == 2
    assert "\u2028" not in read.scripts[0]
    assert "<" not in read.scripts[0]


def _innocent():
    return written_down([[[0.3, 0.7]]], queries=tokens("chien"), keys=tokens("red", "dog"))


def test_the_page_asks_nothing_of_the_network(page):
    read = Page(page)
    policy = [attrs["content"] for _, attrs in read.tags if attrs.get("http-equiv")]
    assert policy == [POLICY]
    assert "default-src 'none'" in POLICY
    for _, attrs in read.tags:
        assert not {"src", "href", "action"} & set(attrs)
    assert not re.search(r"@import|url\(|fetch\(|XMLHttp|import\(", page)
    # licences name an address, and elements of a picture have a name that looks like one
    addresses = re.findall(r"https?:[^\s\"]*", page)
    assert all(address in VENDOR for address in addresses)


def test_the_scripts_write_names_as_text_and_invent_no_number():
    for path in SCRIPTS:
        script = path.read_text()
        assert not re.search(r"inner|outerHTML|insertAdjacent|document\.write|eval\(", script), path
        assert "Math.random" not in script


def test_the_licences_of_vendored_code_are_in_the_page(page):
    for name in ("LICENSE-preact.txt", "LICENSE-htm.txt"):
        assert (DRAWING / "vendor" / name).read_text().strip() in page


def test_modules_are_joined_in_the_order_in_which_they_need_each_other(page):
    script = joined_script("look_page.js")
    assert script in page
    assert not re.search(r"^\s*(import|export)\b", script, re.MULTILINE)
    names = re.findall(r'^modules\["(.*?)"\] = ', script, re.MULTILINE)
    assert len(names) == len(set(names))
    assert names[-1] == "look_page.js"
    for place, part in enumerate(script.split("\nmodules[")[1:]):
        assert set(re.findall(r'= modules\["(.*?)"\];', part)) <= set(names[:place])


def test_the_page_follows_the_reader_s_colours(page):
    assert "prefers-color-scheme: dark" in page
