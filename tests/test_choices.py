"""Choices: the one place where a name becomes an object."""

import pytest

from regard.attention import HEADS, MEMORIES, PATTERNS, RELATIONS, SCORES, SELECTIONS
from regard.attention.tables import name_of
from regard.choices import Choice, find, unknown
from regard.dims import Dims
from regard.errors import SettingError, UnknownChoice
from regard.positions import POSITIONS

DIMS = Dims(d_model=12, n_heads=3)
TABLES = {
    "scores": SCORES,
    "relations": RELATIONS,
    "patterns": PATTERNS,
    "selections": SELECTIONS,
    "memories": MEMORIES,
    "heads": HEADS,
    "positions": POSITIONS,
}


@pytest.mark.parametrize(
    ("text", "name", "settings"),
    [
        ("dot", "dot", {}),
        ("additive:", "additive", {}),
        ("additive:d_hidden=128", "additive", {"d_hidden": 128}),
        (
            "additive: d_hidden = 128 , activation = relu",
            "additive",
            {"d_hidden": 128, "activation": "relu"},
        ),
        ("soft:temperature=0.5", "soft", {"temperature": 0.5}),
        ("soft:temperature=1e-3", "soft", {"temperature": 0.001}),
        ("big_bird:is_causal=true,seed=-3", "big_bird", {"is_causal": True, "seed": -3}),
        ('additive:activation="tanh"', "additive", {"activation": "tanh"}),
        ("big_bird:is_causal=True", "big_bird", {"is_causal": "True"}),
    ],
)
def test_the_shells_spelling_has_the_types_of_a_recipe(text, name, settings):
    choice = Choice.parse(text)
    assert choice == Choice(name, settings)
    assert {key: type(value) for key, value in choice.settings.items()} == {
        key: type(value) for key, value in settings.items()
    }


def test_a_setting_without_a_value_is_refused():
    said = (
        "'additive:d_hidden=3,relu': 'relu' is not a setting. Write additive:KEY=VALUE,KEY=VALUE."
    )
    with pytest.raises(SettingError, match=said):
        Choice.parse("additive:d_hidden=3,relu")


def test_building_gives_the_part_its_settings():
    part = Choice.parse("big_bird:block=5,n_random=2,seed=7").build(PATTERNS, DIMS)
    assert name_of(part) == "big_bird"
    assert part.block == 5
    assert part.union.parts[2].seed == 7


@pytest.mark.parametrize("table", TABLES)
def test_every_name_builds_its_part_without_settings(table):
    for name in TABLES[table]:
        part = Choice(name).build(TABLES[table], DIMS)
        assert table in ("heads", "positions") or name_of(part) == name


def test_names_are_told_apart_across_tables():
    names = [name for table in TABLES.values() for name in table]
    assert len(set(names)) == len(names)


def test_an_unknown_name_is_refused_with_the_nearest_one():
    said = (
        r"There is no 'aditive' here\. Did you mean 'additive'\? "
        r"Known: dot, scaled_dot, general, concat, additive, location\."
    )
    with pytest.raises(UnknownChoice, match=said):
        Choice("aditive").build(SCORES, DIMS)


def test_a_name_like_no_other_gets_no_hint():
    assert unknown("zzz", ["one", "two"]) == "There is no 'zzz' here. Known: one, two."
    with pytest.raises(UnknownChoice, match=r"There is no '' here\. Known: 3\."):
        find("", {"3": 3})


def test_an_unknown_setting_is_refused_with_those_there_are():
    said = (
        "'additive' has no setting 'd_hiden'; it takes d_hidden: int | None = None, "
        "activation: str = 'tanh', has_bias: bool = False."
    )
    with pytest.raises(SettingError) as refusal:
        Choice.parse("additive:d_hiden=3").build(SCORES, DIMS)
    assert str(refusal.value) == said


def test_a_part_without_settings_says_so():
    with pytest.raises(SettingError, match="'dot' has no setting 'scale'; it takes no settings"):
        Choice.parse("dot:scale=2").build(SCORES, DIMS)


def test_the_dims_are_no_setting():
    with pytest.raises(SettingError, match="'general' has no setting 'dims'"):
        Choice.parse("general:dims=3").build(SCORES, DIMS)


@pytest.mark.parametrize(
    ("text", "table", "said"),
    [
        ("blocks:size=big", PATTERNS, "'blocks': size must be int, got 'big'."),
        ("blocks:size=2.5", PATTERNS, "'blocks': size must be int, got 2.5."),
        ("blocks:size=true", PATTERNS, "'blocks': size must be int, got True."),
        ("big_bird:is_causal=1", PATTERNS, "'big_bird': is_causal must be bool, got 1."),
        ("additive:activation=3", SCORES, "'additive': activation must be str, got 3."),
        (
            "soft:temperature=nan",
            SELECTIONS,
            "'soft': temperature must be a finite number, got nan.",
        ),
        (
            "soft:temperature=inf",
            SELECTIONS,
            "'soft': temperature must be a finite number, got inf.",
        ),
        (f"blocks:size={2**63}", PATTERNS, f"'blocks': size must be below 2^63, got {2**63}."),
    ],
)
def test_a_value_of_another_kind_is_refused(text, table, said):
    with pytest.raises(SettingError) as refusal:
        Choice.parse(text).build(table, DIMS)
    assert str(refusal.value) == said


@pytest.mark.parametrize("text", ["soft:temperature=2", "local_predictive:sigma=3"])
def test_a_whole_number_will_do_for_a_real_one(text):
    setting, _, value = text.partition(":")[2].partition("=")
    taken = getattr(Choice.parse(text).build(SELECTIONS, DIMS), setting)
    assert taken == int(value)
    assert type(taken) is float


def test_a_value_that_the_part_cannot_take_is_the_parts_own_refusal():
    with pytest.raises(SettingError, match=r"blocks: size must be at least 1, got 0\."):
        Choice.parse("blocks:size=0").build(PATTERNS, DIMS)
