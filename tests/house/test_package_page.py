"""The page of the package: links and pictures that hold outside the repository, or none."""

from pathlib import Path

import hatch_build

TEXT = "![a map](docs/a.png) [here](docs/b.md#c), [there](https://x.y) and [below](#z)."


def test_links_lead_to_the_repository_and_pictures_to_their_files():
    page = hatch_build.with_absolute_links(TEXT, "https://host/owner/name", "v1")
    assert page == (
        "![a map](https://host/owner/name/raw/v1/docs/a.png) "
        "[here](https://host/owner/name/blob/v1/docs/b.md#c), [there](https://x.y) and [below](#z)."
    )


def test_without_an_address_pictures_are_left_out_and_links_are_their_words():
    page = hatch_build.with_absolute_links(TEXT, None, "v1")
    assert page == " here, [there](https://x.y) and [below](#z)."


def test_no_link_of_the_readme_is_relative_on_the_page(monkeypatch):
    monkeypatch.setenv("GITHUB_SERVER_URL", "https://host")
    monkeypatch.setenv("GITHUB_REPOSITORY", "owner/name")
    monkeypatch.setenv("GITHUB_REF_NAME", "v1")
    metadata = {}
    root = str(Path(__file__).parents[2])
    hatch_build.PackagePage(root, {}).update(metadata)
    page = metadata["readme"]["text"]
    assert page.count("](https://host/owner/name/raw/v1/docs/img/") == 2
    assert [one for one in hatch_build.LINK.findall(page) if "://" not in one[2]] == []
    assert metadata["urls"]["Issues"] == "https://host/owner/name/issues"
