"""Constraint tokens: what an answer must begin with or hold, in the tokens of a run."""

from regard.data.kinds import UNK
from regard.data.subwords import Subwords
from regard.decoding import Sentence
from regard.errors import SettingError
from regard.tasks.loaded import Loaded
from regard.tasks.normalisation import normalised_text
from regard.tasks.predictions import Request


def wished(loaded: Loaded, request: Request) -> Sentence:
    """What the answer to a request must look like; its source is still to come."""
    target = loaded.target
    prefix, *phrases = (
        normalised_text(loaded.recipe, text) for text in (request.prefix, *request.must_contain)
    )
    for text in (prefix, *phrases):
        _check_is_known(target, text, request.name)
    return Sentence(
        (),
        prefix=target.encode(prefix) if prefix else (),
        must_contain=[target.encode_inside(phrase) for phrase in phrases],
        seed=request.seed,
    )


def _check_is_known(target: Subwords, text: str, name: str) -> None:
    """Refuse a word that is not in the vocabulary: any other unknown word would stand for it."""
    unknown = [word for word in text.split() if UNK in target.encode(word)]
    if unknown:
        raise SettingError(
            f"predict: {name}: no answer of this run can hold '{unknown[0]}', which is not in its "
            "vocabulary. Leave it out, or take a run of sub-words."
        )
