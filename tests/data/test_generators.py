"""Generated letters: the tasks, the splits, the alignment."""

from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data import GENERATORS
from regard.errors import SettingError, UnknownChoice

ANSWERS = {
    "copy": lambda letters: letters,
    "reverse": lambda letters: letters[::-1],
    "sort": sorted,
}


@pytest.mark.parametrize("name", ANSWERS)
def test_a_target_is_what_the_task_says(name):
    lengths = set()
    for example in GENERATORS[name]("train", 150):
        letters = example.source.split(" ")
        lengths.add(len(letters))
        assert set(letters) <= set("abcdefghij")
        assert example.targets == (" ".join(ANSWERS[name](letters)),)
    assert lengths == set(range(2, 10))


@pytest.mark.parametrize("name", ANSWERS)
def test_links_join_every_letter_to_itself(name):
    for example in GENERATORS[name]("valid", 60):
        (target,) = example.targets
        assert sorted(s for s, _ in example.links) == list(range(0, len(example.source), 2))
        assert sorted(t for _, t in example.links) == list(range(0, len(target), 2))
        assert all(example.source[s] == target[t] for s, t in example.links)


@pytest.mark.parametrize("name", GENERATORS)
@settings(max_examples=15)
@given(seed=st.integers(0, 2**32), split=st.sampled_from(["train", "valid", "test"]))
def test_examples_are_a_pure_function_of_seed_split_and_count(name, seed, split):
    make = GENERATORS[name]
    some = list(make(split, 5, seed=seed))
    assert some == list(islice(make(split, 9, seed=seed), 5))
    assert some != list(make(split, 5, seed=seed + 1))
    assert len({example.source for example in some}) == 5


@pytest.mark.parametrize("name", ANSWERS)
def test_no_two_splits_share_a_source_under_any_seeds(name):
    seen = {}
    for seed in range(2):
        for split in ("train", "valid", "test"):
            for example in GENERATORS[name](split, 80, seed=seed):
                assert seen.setdefault(example.source, split) == split


def test_all_short_sequences_can_be_had_and_no_more():
    every = [
        len(list(_until_refused(GENERATORS["sort"](split, 101, min_letters=2, max_letters=2))))
        for split in ("train", "valid", "test")
    ]
    assert sum(every) == 100
    assert every[0] > every[1] > 0
    assert every[2] > 0


def _until_refused(examples):
    said = r"101 examples of \w+ were asked for, but only \d+ different ones were found"
    with pytest.raises(SettingError, match=said):
        yield from examples


def test_impossible_settings_are_refused():
    with pytest.raises(SettingError, match="copy: expected 1 <= min_letters <= max_letters, got 3"):
        GENERATORS["copy"]("train", 1, min_letters=3, max_letters=2)
    with pytest.raises(SettingError, match="sort: count must be at least 1, got 0"):
        next(GENERATORS["sort"]("train", 0))
    with pytest.raises(UnknownChoice, match=r"no 'valdi' here\. Did you mean 'valid'"):
        next(GENERATORS["reverse"]("valdi", 1))
