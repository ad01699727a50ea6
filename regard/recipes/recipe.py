"""Recipes: TOML → frozen dataclasses. All mistakes are shown together, each with file and line."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from regard.choices import Choice, find, unknown
from regard.data import GENERATORS, PICTURE_GENERATORS, PICTURE_READERS, READERS, Example
from regard.data.examples import held_out_share
from regard.data.framings import FRAMINGS
from regard.data.held_out import examples_of_split
from regard.data.vocabulary_files import ALL_KINDS
from regard.errors import RecipeError, RegardError, SettingError, check_least, check_share
from regard.models import EncoderSpec, Spec, TransformerSpec
from regard.models.spec_choices import frozen_encoder, wrong_choices
from regard.recipes.cache_recipe import CacheRecipe
from regard.recipes.decoding_recipe import DecodingRecipe
from regard.recipes.plain_paths import with_readers
from regard.recipes.recipe_errors import naming_owner, with_place
from regard.recipes.sections import Mistakes, read_parts, read_section, read_settings
from regard.recipes.shipped import recipe_file
from regard.recipes.toml_tables import change_table, check_extent, key_lines, read_table, with_size
from regard.recipes.training_recipe import TrainingRecipe

HELD_OUT = "held_out"
"""The name of validation data that are taken out of the training data, and of their share."""


@dataclass(frozen=True, kw_only=True)
class DataRecipe:
    """Where examples come from."""

    train: Choice
    """A reader or a generator, for instance { name = "parallel", source = …, target = … }, or the
    path of one file that holds both sides."""
    valid: Choice
    """The same for validation examples, which training never learns from; "held_out:share=0.05"
    takes them out of the training examples."""
    test: Choice | None = None
    """The same for test examples, which are read once, at the end."""
    max_tokens: int = 256
    """Longest source or target, in tokens, the end token included."""
    on_long: str = "error"
    """What happens to a longer example: "error", or "skip", which is counted and reported."""

    def __post_init__(self) -> None:
        if self.valid.name == HELD_OUT:
            self._hold_out(self.valid)
        check_least("data.max_tokens", self.max_tokens, 2)
        find(self.on_long, {"error": None, "skip": None}, key="data.on_long")

    def _hold_out(self, valid: Choice) -> None:
        """Let training and validation share the training data."""
        if self.train.name not in READERS:
            raise SettingError(
                f"data.valid: {HELD_OUT} takes its examples out of the files of data.train, but "
                f"'{self.train.name}' reads none. Give data.valid a reader or generator of its own."
            )
        valid.check_settings(held_out_share)
        settings = {**self.train.settings, HELD_OUT: held_out_share(**valid.fitted(held_out_share))}
        for split in ("train", "valid"):
            object.__setattr__(self, split, replace(self.train, settings=settings))


@dataclass(frozen=True, kw_only=True)
class TokensRecipe:
    """How text becomes tokens; learned from the training split alone."""

    kind: str = "bpe"
    """"bpe", "unigram", "bytes", "characters", "words", or "parsed_words", which carry their trees;
    "wordpiece" and "sentencepiece" come with published models."""
    size: int = 8000
    """Size of the vocabulary, at most."""
    is_joint: bool = True
    """One vocabulary for both sides, or one for each."""
    dropout: float = 0.0
    """The share of merges that is left out of training texts, anew in every epoch; bpe's only."""

    def __post_init__(self) -> None:
        find(self.kind, ALL_KINDS, key="tokens.kind")
        check_least("tokens.size", self.size, 5)
        check_share("tokens.dropout", self.dropout)
        if self.dropout and self.kind != "bpe":
            raise SettingError(
                f"tokens.dropout leaves out merges, which {self.kind} does not have; take kind = "
                '"bpe", or dropout = 0.'
            )


@dataclass(frozen=True, kw_only=True)
class PicturesRecipe:
    """How pictures become the input of a captioner."""

    framing: str = "crop"
    """"crop" (the middle square) or "squeeze" (all of it, its sides made equal)."""
    margin: int = 0
    """Most pixels by which training pictures are shifted, anew in every epoch; 0 shifts none."""
    may_mirror: bool = False
    """Whether every second one is mirrored; False where captions distinguish left and right."""

    def __post_init__(self) -> None:
        find(self.framing, FRAMINGS, key="pictures.framing")
        check_least("pictures.margin", self.margin, 0)


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """All settings of a run."""

    data: DataRecipe
    training: TrainingRecipe
    tokens: TokensRecipe = field(default_factory=TokensRecipe)
    model: Spec = field(default_factory=TransformerSpec)
    pictures: PicturesRecipe | None = None
    """Only for models that read pictures."""
    decoding: DecodingRecipe = field(default_factory=DecodingRecipe)
    cache: CacheRecipe | None = None
    """Only for language models that go on with a text."""

    @property
    def pictures_or_default(self) -> PicturesRecipe:
        """The section on pictures; its defaults if the recipe has none."""
        return self.pictures or PicturesRecipe()

    def as_table(self) -> dict[str, Any]:
        """The resolved recipe as TOML can hold it."""
        return {name: _plain(each) for name, each in asdict(self).items() if each is not None}


Check = Callable[["Recipe"], None]
"""Raises an error for a recipe that cannot be used."""


def read_recipe(path: Path, changes: Sequence[str] = (), *, check: Check | None = None) -> Recipe:
    """Read a recipe, with `section.key=value` changes on top, and check its task.

    Args:
        path: the file, or the name of a shipped recipe.
        changes: what was typed behind --set.
        check: what refuses the task of a recipe without other mistakes.
    """
    path = recipe_file(path)
    table, text = read_table(path)
    for change in changes:
        change_table(table, change)
    typed = {change.partition("=")[0].strip(): change for change in changes}
    return parse_recipe(table, str(path), key_lines(text), typed, check=check)


def parse_recipe(
    table: Mapping[str, Any],
    where: str,
    lines: dict[str, int],
    changes: Mapping[str, str] | None = None,
    *,
    check: Check | None = None,
) -> Recipe:
    """Turn a table into a recipe, or raise one error that lists every mistake.

    Args:
        table: sections and their keys.
        where: what the table is called, for instance the name of its file.
        lines: the line of each key, as far as it has one.
        changes: what was typed behind --set, by the key that it changed.
        check: what refuses the task of a recipe without other mistakes.
    """
    mistakes, recipe = Mistakes(), None
    check_extent(table, mistakes)
    if not mistakes.found:
        table = with_readers(table)
        parts = read_parts(Recipe, with_size(table, mistakes), "", mistakes)
        recipe = None if mistakes.found else Recipe(**parts)
        # mistakes in one section do not hide those in another
        if parts.get("model") is not None:
            for path, text in wrong_choices(parts["model"]):
                mistakes.add(path, text)
        if recipe is not None:
            _check_sources(recipe, mistakes)
            _check_task(recipe, check, mistakes)
        _check_splits(table.get("data"), mistakes)
    if mistakes.found or recipe is None:
        model = table.get("model")
        kind = str(model.get("kind", TransformerSpec.kind)) if isinstance(model, dict) else None
        said = (
            with_place(path, naming_owner(path, text, kind, Recipe), where, lines, changes or {})
            for path, text in mistakes.found
        )
        raise RecipeError("\n".join(said))
    return recipe


def _check_task(recipe: Recipe, check: Check | None, mistakes: Mistakes) -> None:
    """Check what the run would be for, where a package that knows tasks asks for it."""
    try:
        if check is not None:
            check(recipe)
    except RegardError as error:
        mistakes.add("model.task", str(error).removeprefix("model.task: "))


def _check_sources(recipe: Recipe, mistakes: Mistakes) -> None:
    """Check that the data have the kind of source the model reads, and no setting is ignored."""
    kind, reads = recipe.model.kind, recipe.model.source_type
    for split in ("train", "valid", "test"):
        choice = getattr(recipe.data, split)
        if choice is None or choice.name not in {**READERS, **GENERATORS}:
            continue
        held = "pictures" if choice.name in {**PICTURE_READERS, **PICTURE_GENERATORS} else "texts"
        if held != reads:
            mistakes.add(
                f"data.{split}",
                f"'{choice.name}' gives {held}, but a model of kind '{kind}' reads {reads}. Take "
                "other data, or another model.kind.",
            )
    if recipe.pictures is not None and reads != "pictures":
        mistakes.add("pictures", f"a model of kind '{kind}' looks at none. Leave the section out.")
    if reads == "pictures" and not recipe.tokens.is_joint:
        mistakes.add(
            "tokens.is_joint", "means nothing for pictures, which have no tokens. Leave it."
        )
    if recipe.model.has_one_vocabulary and not recipe.tokens.is_joint:
        mistakes.add(
            "tokens.is_joint",
            f"must be true: a model of kind '{kind}' reads and writes tokens of one vocabulary. "
            "Leave it out.",
        )
    if recipe.cache is not None and not getattr(recipe.model, "continues_source", False):
        mistakes.add(
            "cache",
            "only a model that continues running text has a cache. Take model.kind = "
            "'language_model' with model.rows = 'running', or leave [cache] out.",
        )
    if recipe.decoding.rules and kind == EncoderSpec.kind:
        mistakes.add(
            "decoding", f"a model of kind '{kind}' searches for no answers. Leave the section out."
        )
    _check_frozen(recipe.model, recipe.pictures_or_default, mistakes)
    has_branches = getattr(recipe.model, "layer", None) == "weighted_branches"
    is_frozen = getattr(recipe.model, "has_frozen_branches", False)
    if recipe.training.branch_learning_rate and (is_frozen or not has_branches):
        mistakes.add(
            "training.branch_learning_rate",
            "is that of kappa and alpha, which this model does not learn. Take model.layer = "
            "'weighted_branches' with has_frozen_branches = false, or leave it out.",
        )


def _check_frozen(spec: Spec, pictures: PicturesRecipe, mistakes: Mistakes) -> None:
    """Refuse augmentation with a frozen encoder, whose annotations are computed once."""
    if not pictures.margin and not pictures.may_mirror:
        return
    try:
        frozen = frozen_encoder(spec)
    except RegardError as error:
        mistakes.add("model.encoder", str(error))
        return
    if frozen is not None:
        name = "margin" if pictures.margin else "may_mirror"
        mistakes.add(
            f"pictures.{name}",
            f"would do nothing: the encoder '{frozen}' is frozen, and sees each picture "
            "once. Leave it out, or let the encoder learn (is_frozen = false).",
        )


def examples(choice: Choice, split: str) -> Callable[[], Iterator[Example]]:
    """How to read a split, as often as one likes."""
    mistakes = Mistakes()
    source = _source(choice, split, f"data.{split}", mistakes)
    if source is None:
        raise RecipeError("\n".join(f"{path}: {text}" for path, text in mistakes.found))
    return source


def _source(
    choice: Choice, split: str, path: str, mistakes: Mistakes
) -> Callable[[], Iterator[Example]] | None:
    if choice.name in READERS:
        reader = read_section(READERS[choice.name], choice.settings, path, mistakes)
        return None if reader is None else lambda: examples_of_split(reader, split)
    if choice.name not in GENERATORS:
        mistakes.add(path, unknown(choice.name, [*READERS, *GENERATORS]))
        return None
    generator = GENERATORS[choice.name]
    settings = read_settings(generator, choice.settings, path, mistakes)
    return None if settings is None else lambda: generator(split, **settings)


def _check_splits(data: Any, mistakes: Mistakes) -> None:
    """Check that every reader and generator can be made, and that all give texts of one form."""
    if not isinstance(data, dict):
        return
    parts = read_parts(DataRecipe, data, "data", Mistakes())
    for split in ("train", "valid", "test"):
        choice = parts.get(split)
        # held-out examples come from data.train, which is checked
        if choice is not None and (split, choice.name) != ("valid", HELD_OUT):
            _source(choice, split, f"data.{split}", mistakes)
            _same_form(parts.get("train", choice), choice, f"data.{split}", mistakes)


def _same_form(train: Choice, other: Choice, path: str, mistakes: Mistakes) -> None:
    """Check that validation and test texts have the form of the training texts."""
    for key in ("normalise", "tags", "has_trees", "keeps_spaces"):
        wanted, found = (_setting(each, key) for each in (train, other))
        # texts with tags and trees may also come from a reader without these settings
        if found != wanted and (key == "normalise" or None not in (wanted, found)):
            mistakes.add(f"{path}.{key}", f"must be that of data.train, {wanted!r}, got {found!r}.")


def _setting(choice: Choice, key: str) -> Any:
    """A reader's setting, its own where none is given; None of one that does not have it."""
    return choice.settings.get(key, getattr(READERS.get(choice.name), key, None))


def _plain(value: Any) -> Any:
    """The value as TOML can hold it: no None, no tuples, no paths, choices as tables."""
    if isinstance(value, dict):
        if set(value) == {"name", "settings"}:
            return {"name": value["name"], **_plain(dict(value["settings"]))}
        return {key: _plain(each) for key, each in value.items() if each is not None}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return str(value) if isinstance(value, Path) else value
