"""Words of other toolkits are answered with ours, and every answer is a name that exists."""

import dataclasses
import re

import pytest

from regard.catalogue import mechanisms
from regard.choices import find
from regard.cli.verbs import VERBS
from regard.errors import UnknownChoice
from regard.familiar_words import FAMILIAR, familiar
from regard.hardware.hardware import PRECISIONS
from regard.models import KINDS, LanguageSpec, RecurrentSpec, TransformerSpec
from regard.recipes.recipe import READERS, DataRecipe, TokensRecipe
from regard.recipes.training_recipe import TrainingRecipe
from regard.tasks import TASKS


def names():
    specs = (TransformerSpec, RecurrentSpec, LanguageSpec)
    sections = (TrainingRecipe, DataRecipe, TokensRecipe, *specs)
    keys = {field.name for section in sections for field in dataclasses.fields(section)}
    return keys | {m.name for m in mechanisms()} | {*READERS, *TASKS, *KINDS, *PRECISIONS, *VERBS}


@pytest.mark.parametrize("word", FAMILIAR)
def test_every_answer_is_a_name_of_ours(word):
    for answer in FAMILIAR[word]:
        assert re.split("[:!] ", answer)[0] in names()


@pytest.mark.parametrize("word", FAMILIAR)
def test_no_word_of_ours_is_answered(word):
    # a kind of model, and what its relation is called by others
    assert word not in names() - {"t5"} or word == "n_layers"


@pytest.mark.parametrize(
    ("word", "known", "said"),
    [
        ("lr", ["steps", "learning_rate"], "It is called 'learning_rate'."),
        (
            "num_train_epochs",
            ["steps", "epochs"],
            "It is called 'epochs': it stands in place of steps, the number of updates.",
        ),
        ("rope", ["positions", "relation"], 'Write positions = "rotary".'),
        ("RoPE", ["rotary", "learned"], "It is called 'rotary'."),
        ("lr", ["steps"], None),
        ("sentiment", ["tags", "label"], "It is called 'label'."),
        ("classifier", ["encoder"], "It is called 'encoder': its task is \"label\"."),
        ("ner", ["encoder"], "It is called 'encoder': its task is \"tags\"."),
        (
            "classify",
            ["train", "predict"],
            "It is called 'predict': a run that gives labels writes those of a text.",
        ),
    ],
)
def test_a_word_is_answered_where_its_name_is_known(word, known, said):
    assert familiar(word, known) == said


def test_the_error_tells_it_before_all_names():
    with pytest.raises(UnknownChoice) as caught:
        find("alibi", {"shaw": 1, "linear_bias": 2}, key="model.relation")
    assert str(caught.value) == (
        "model.relation: There is no 'alibi' here. It is called 'linear_bias'. "
        "Known: shaw, linear_bias."
    )
