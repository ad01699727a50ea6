"""What `make site` assembles, without Sphinx: links, shelves and the reference."""

import pytest

import regard
from docs.site import reference
from docs.site.links import wrong_links
from docs.site.pages import DOCS, Rewriter, file_page, promise_of, repository_pages, shelves
from regard import errors
from regard.catalogue import mechanisms
from regard.cli.verbs import VERBS
from regard.data import GENERATORS, READERS
from regard.models.kinds import KINDS, Spec
from regard.recipes.keys import keys_of
from regard.recipes.recipe import DataRecipe, PicturesRecipe, TokensRecipe, TrainingRecipe

SECTIONS = (DataRecipe, TokensRecipe, PicturesRecipe, TrainingRecipe, *Spec.__args__)


def test_every_page_of_the_repository_stands_on_one_shelf():
    made = dict.fromkeys((place for _, place in repository_pages()), "")
    listed = [page for shelf in shelves() for page in shelf.listed(made)]
    assert len(listed) == len(set(listed))
    assert made.keys() - set(listed) == {"index.md"}


def test_links_stay_on_the_site_and_a_source_file_becomes_a_page():
    rewriter = Rewriter()
    text = "[a](training.md#threads) [`b`](../regard/errors.py) [c](../README.md) [d](https://x.y)"
    assert rewriter.rewrite(text, "docs/data.md", "data.md") == (
        "[a](training.md#threads) [`b`](files/regard/errors.py.md) [c](index.md) [d](https://x.y)"
    )
    assert rewriter.files == {"regard/errors.py"}
    assert "class RegardError(ValueError)" in file_page("regard/errors.py")


def test_links_inside_of_code_are_left_alone():
    text = "```text\n[a](../README.md)\n```\n"
    assert Rewriter().rewrite(text, "docs/data.md", "data.md") == text


def test_a_shelf_tells_what_a_page_promises():
    page = "# Data\n\nAfter this page you can bring [texts](a.md) of yours. It is short.\n"
    assert promise_of(page) == "you can bring texts of yours."


def test_the_reference_has_the_help_of_every_verb():
    page = reference.verbs_page()
    assert [verb for verb in VERBS if f"regard {verb}\n\n```text\nUsage: " not in page] == []
    assert "## regard bench attention" in page or "### regard bench attention" in page


@pytest.mark.parametrize("kind", [*SECTIONS, *READERS.values()], ids=lambda kind: kind.__name__)
def test_every_key_has_a_type_and_a_meaning(kind):
    assert [key.name for key in keys_of(kind) if not key.annotation or not key.meaning] == []


def test_every_section_kind_reader_and_generator_is_on_the_page_of_keys():
    page = reference.recipe_page()
    wanted = [f'kind = "{name}"' for name in KINDS]
    wanted += [f'name = "{name}"' for name in (*READERS, *GENERATORS)]
    assert [one for one in wanted if f"### {one}\n" not in page] == []
    assert "| `label_smoothing` | `float` | `0.1` | Share of the target" in page


def test_every_error_is_on_its_page_with_its_meaning():
    page = reference.errors_page()
    for kind in reference.error_classes():
        assert f"| `{kind.__name__}` | {kind.__doc__.partition('.')[0]}" in page
    assert errors.RecipeError in reference.error_classes()


def test_a_docstring_becomes_markdown_with_its_examples_and_arguments_as_such():
    text = "Add <one>.\n\n    y = x * 1\n\n>>> f(1)\n2\n\nArgs:\n    x: what to\n        add to.\n"
    assert reference.markdown(text) == (
        "Add \\<one>.\n\n    y = x * 1\n\n\n```pycon\n>>> f(1)\n2\n```\n\nArguments:\n\n"
        "- `x`: what to\n  add to."
    )


def test_public_names_have_their_signatures_and_asynchronous_methods_are_shown_as_such():
    page = reference.module_page(regard)
    assert [name for name in regard.__all__ if f"\n## {name}\n" not in page] == []
    assert "async def predict(" in page


def test_dead_links_and_foreign_requests_are_found(tmp_path):
    (tmp_path / "a.html").write_text(
        '<p id="here"><a href="b.html#there"></a><a href="#here"></a><a href="c.html"></a>'
        '<a href="https://example.org"></a><img src="https://example.org/x.png">'
    )
    (tmp_path / "b.html").write_text("<p>")
    assert wrong_links(tmp_path) == [
        "a.html fetches https://example.org/x.png",
        "a.html leads to b.html#there, and that page has no such place",
        "a.html leads to c.html, which is not there",
    ]


def test_every_mechanism_has_its_place_in_the_map_of_what_replaces_what():
    the_map, _, _ = (DOCS / "mechanisms.md").read_text().partition("## The pages")
    assert [one.name for one in mechanisms() if f"mechanisms/{one.name}.md)" not in the_map] == []
