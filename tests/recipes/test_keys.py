import tomllib

import pytest

from regard.models.kinds import KINDS, NAMED_SIZES
from regard.recipes.keys import SECTIONS, json_schema, key_paths, keys_of
from regard.recipes.shipped import shipped_recipes
from regard.recipes.training_recipe import TrainingRecipe

SCHEMA = json_schema()
MODEL = SCHEMA["properties"]["model"]


def table_of(section, kind):
    """The part of the schema that holds for a section; a model's is chosen by its kind."""
    if section != "model":
        return SCHEMA["properties"][section]
    (chosen,) = (
        case["then"]
        for case in MODEL["allOf"]
        if case["then"]["properties"]["kind"] == {"const": kind}
    )
    return chosen


@pytest.mark.parametrize("name", shipped_recipes())
def test_every_key_of_a_shipped_recipe_is_in_the_schema(name):
    recipe = tomllib.loads(shipped_recipes()[name].read_text())
    kind = recipe.get("model", {}).get("kind", "transformer")
    for section, table in recipe.items():
        schema = table_of(section, kind)
        assert table.keys() <= schema["properties"].keys()
        assert not schema["additionalProperties"]
        assert set(schema.get("required", ())) <= table.keys()


def test_a_model_has_the_keys_of_its_kind_alone():
    assert MODEL["properties"]["kind"] == {"enum": list(KINDS)}
    assert len(MODEL["allOf"]) == len(KINDS)
    encoder = table_of("model", "encoder")["properties"]
    assert "n_decoder_layers" not in encoder
    assert encoder["size"]["enum"] == list(NAMED_SIZES["encoder"])
    assert {"label", "tags"} <= set(encoder["task"]["enum"])


def test_a_model_without_a_kind_is_a_transformer():
    first, *others = MODEL["allOf"]
    assert first["then"]["properties"]["kind"] == {"const": "transformer"}
    assert {"not": {"required": ["kind"]}} in first["if"]["anyOf"]
    assert all(case["if"]["required"] == ["kind"] for case in others)


def test_a_key_says_its_type_default_and_meaning():
    rate = table_of("training", None)["properties"]["learning_rate"]
    assert rate == {
        "type": "number",
        "description": "The peak; for noam a factor.",
        "default": 1e-3,
    }
    relation = table_of("model", "transformer")["properties"]["relation"]["anyOf"]
    assert relation[0] == {"type": "string"}
    assert "shaw" in relation[1]["properties"]["name"]["enum"]


def test_the_text_below_a_field_is_its_meaning():
    keys = {key.name: key for key in keys_of(TrainingRecipe)}
    assert list(keys) == list(TrainingRecipe.__dataclass_fields__)
    assert keys["warmup_steps"].meaning == "Updates until the peak."
    assert keys["warmup_steps"].annotation == "int"


def test_every_section_has_keys_to_complete():
    paths = list(key_paths())
    assert {path.partition(".")[0] for path in paths} == SECTIONS.keys()
    assert len(set(paths)) == len(paths)
    assert "training.steps" in paths
