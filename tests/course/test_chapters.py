"""The course: ten short chapters in two languages, and numbers that their code gives."""

import json
import re

import pytest

from regard.course.chapter_files import FOLDER, LANGUAGES, PLACE_OF_CODE, chapter, chapters, names
from regard.course.execution import play
from regard.course.notebooks import write_notebook
from regard.errors import UnknownChoice

NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?")
TRANSLATIONS = [language for language in LANGUAGES if language != "en"]


def _claims(prose):
    """The numbers that a chapter claims to be the code's: those in bold."""
    return [n for bold in re.findall(r"\*\*(.+?)\*\*", prose) for n in NUMBER.findall(bold)]


def test_there_are_ten_chapters_numbered_in_order():
    assert [one.number for one in chapters()] == list(range(1, 11))
    assert [one.title.partition(" ")[0] for one in chapters()] == [str(n) for n in range(1, 11)]


@pytest.mark.parametrize("name", names())
def test_a_chapter_is_short_and_says_first_what_the_reader_can_do_after_it(name):
    assert len((FOLDER / f"{name}.py").read_text().splitlines()) <= 150
    assert re.search(r"^After this chapter you can", chapter(name).prose, re.MULTILINE)


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("name", names())
def test_a_chapter_ends_with_a_question_that_the_code_after_it_answers(name, language):
    cells = chapter(name, language).steps
    asks = [
        n for n, cell in enumerate(cells) if re.search(r"^## (Question|问题)$", cell.text, re.M)
    ]
    assert len(asks) == 1
    assert [cell.is_code for cell in cells[asks[0] + 1 :]].count(True) == 1


@pytest.mark.parametrize("language", TRANSLATIONS)
@pytest.mark.parametrize("name", names())
def test_a_translation_has_the_code_and_the_claimed_numbers_of_the_english_chapter(name, language):
    own, english = chapter(name, language), chapter(name)
    assert own.code == english.code
    pieces = (FOLDER / f"{name}.{language}.md").read_text().count(PLACE_OF_CODE)
    assert pieces == len(english.code)
    assert _claims(own.prose) == _claims(english.prose)


@pytest.mark.parametrize("name", names())
def test_a_chapter_claims_at_least_two_numbers(name):
    assert len(_claims(chapter(name).prose)) >= 2


@pytest.mark.course
@pytest.mark.parametrize("name", names())
def test_every_number_that_a_chapter_claims_is_printed_by_its_code(name):
    played = list(play(chapter(name)))
    printed = NUMBER.findall("\n".join(each.printed for each in played))
    assert [claim for claim in _claims(chapter(name).prose) if claim not in printed] == []
    assert all(each.step.is_code for each in played if each.printed or each.figure)


def test_code_runs_in_a_folder_of_its_own_and_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    played = list(play(chapter(1)))
    assert "[10. 11.  6.]" in "".join(each.printed for each in played).replace(",", "")
    assert list(tmp_path.iterdir()) == []


def test_a_notebook_holds_the_cells_of_the_chapter(tmp_path):
    write_notebook(chapter(2), tmp_path / "two.ipynb")
    notebook = json.loads((tmp_path / "two.ipynb").read_text())
    assert notebook["nbformat"] == 4
    kinds = {"code": True, "markdown": False}
    held = [("".join(c["source"]), kinds[c["cell_type"]]) for c in notebook["cells"]]
    assert held == [(cell.text, cell.is_code) for cell in chapter(2).steps]
    assert len({cell["id"] for cell in notebook["cells"]}) == len(held)


def test_a_chapter_is_found_by_number_and_by_name_and_a_wrong_one_is_an_error():
    assert chapter("2") == chapter("scores") == chapter("02_scores") == chapter(2)
    with pytest.raises(UnknownChoice, match=r"expected a chapter from 1 to 10, got 11"):
        chapter(11)
    with pytest.raises(UnknownChoice, match=r"Did you mean 'positions'\?"):
        chapter("position")
    with pytest.raises(UnknownChoice, match=r"--language: There is no 'fr' here\. Known: en, zh\."):
        chapter(1, "fr")
