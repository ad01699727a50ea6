"""Recipes: TOML → frozen dataclasses. All mistakes are shown together, each with file and line."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from regard.choices import Choice, find, unknown
from regard.data import GENERATORS, PICTURE_GENERATORS, PICTURE_READERS, READERS, Example
from regard.data.framings import FRAMINGS
from regard.data.vocabulary_files import ALL_KINDS
from regard.errors import RecipeError, RegardError, SettingError, check_least
from regard.models import Spec, TransformerSpec
from regard.models.spec_choices import frozen_encoder, wrong_choices
from regard.recipes.recipe_errors import naming_owner, with_place
from regard.recipes.schedules import SCHEDULES
from regard.recipes.sections import Mistakes, read_parts, read_section, read_settings
from regard.recipes.toml_tables import change_table, check_extent, key_lines, read_table, with_size

STOPPING_SCORES = {"loss": "the lower the better", "bleu": "the higher the better"}
"""The validation scores by which training may stop early."""


@dataclass(frozen=True, kw_only=True)
class DataRecipe:
    """Where examples come from."""

    train: Choice
    """A reader or a generator, for instance { name = "parallel", source = …, target = … }."""
    valid: Choice
    """The same for validation examples, which training never learns from."""
    test: Choice | None = None
    """The same for test examples, which are read once, at the end."""
    max_tokens: int = 256
    """Longest source or target, in tokens, the end token included."""
    on_long: str = "error"
    """What happens to a longer example: "error", or "skip", which is counted and reported."""

    def __post_init__(self) -> None:
        check_least("data.max_tokens", self.max_tokens, 2)
        find(self.on_long, {"error": None, "skip": None}, key="data.on_long")


@dataclass(frozen=True, kw_only=True)
class TokensRecipe:
    """How text becomes tokens; learned from the training split alone."""

    kind: str = "bpe"
    """"bpe", "unigram", "characters", "words", or "parsed_words", which carry their trees;
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
        _within_unit("tokens.dropout", self.dropout)
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
class LoraRecipe:
    """Low-rank adapters: all weights of a run stay as they are, and small products are learned.

    W' = W + alpha / rank · B A, with A of `rank` rows and B of as many columns.
    """

    rank: int = 8
    """Rows of A and columns of B."""
    alpha: float = 16.0
    """The factor of the product, times the rank."""
    dropout: float = 0.0
    """On the adapters' input."""
    modules: tuple[str, ...] = ("W_Q", "W_V")
    """The linear maps that get adapters, by their names in the model."""

    def __post_init__(self) -> None:
        check_least("training.lora.rank", self.rank, 1)
        if not (math.isfinite(self.alpha) and self.alpha > 0):
            raise SettingError(f"training.lora.alpha must be above 0, got {self.alpha}.")
        _within_unit("training.lora.dropout", self.dropout)
        if not self.modules:
            raise SettingError("training.lora.modules must name at least one, got none.")


@dataclass(frozen=True, kw_only=True)
class TrainingRecipe:
    """How the model learns."""

    steps: int
    """Updates of the weights."""
    target_tokens_per_update: int = 4096
    """Target tokens of one update, over all devices; one batch at least."""
    target_tokens_per_batch: int = 4096
    """Target tokens, padding included, that are in memory at once; the rest is accumulated."""
    schedule: str = "inverse_square_root"
    """"noam", "inverse_square_root", "cosine" or "constant"."""
    learning_rate: float = 1e-3
    """The peak; for noam a factor."""
    warmup_steps: int = 400
    """Updates until the peak."""
    beta1: float = 0.9
    """Adam's first decay."""
    beta2: float = 0.98
    """Adam's second decay."""
    eps: float = 1e-9
    """Adam's guard against division by zero."""
    weight_decay: float = 0.0
    """Decoupled (AdamW); not on biases and norms."""
    label_smoothing: float = 0.1
    """Share of the target that is spread over the vocabulary."""
    clip_norm: float = 1.0
    """Gradients longer than this are shortened to it; 0 leaves them."""
    seed: int = 1
    """Seed of weights, order and dropout."""
    checkpoint_every: int = 500
    """Updates between checkpoints."""
    keep_checkpoints: int = 3
    """How many of the newest are kept, beside the best."""
    validate_every: int = 500
    """Updates between validations."""
    validate_examples: int = 1000
    """How many examples are decoded for exact match at a validation; of running text none are."""
    validate_bleu: bool = False
    """Whether BLEU is computed at a validation as well."""
    stop_on: str = "loss"
    """The score of early stopping and of the best checkpoint: "loss" or "bleu"."""
    patience: int = 0
    """Validations without improvement before training stops; 0 means never."""
    average_last: int = 0
    """How many of the last checkpoints the final weights are the mean of; 0 takes the last."""
    ema_decay: float = 0.0
    """How much of the moving average of the weights an update keeps, say 0.999; 0 keeps none."""
    r_drop: float = 0.0
    """Weight of the divergence of two passes with different dropout (R-Drop); 0 makes one pass."""
    start_from: Path | None = None
    """A finished run whose weights and sub-words training starts from."""
    lora: LoraRecipe | None = None
    """Adapters that are learned in place of the weights of `start_from`."""

    def __post_init__(self) -> None:
        counts = ("steps", "target_tokens_per_update", "target_tokens_per_batch")
        often = ("checkpoint_every", "validate_every", "keep_checkpoints", "validate_examples")
        for name in (*counts, *often):
            check_least(f"training.{name}", getattr(self, name), 1)
        amounts = ("learning_rate", "eps", "weight_decay", "r_drop")
        for name in (*amounts, "warmup_steps", "clip_norm", "patience", "average_last"):
            check_least(f"training.{name}", getattr(self, name), 0)
        for name in amounts:
            value = getattr(self, name)
            if not math.isfinite(value):
                raise SettingError(f"training.{name} must be a finite number, got {value}.")
        for name in ("beta1", "beta2", "label_smoothing", "ema_decay"):
            _within_unit(f"training.{name}", getattr(self, name))
        if not 0 <= self.seed < 2**63:
            raise SettingError(f"training.seed must lie between 0 and 2^63 - 1, got {self.seed}.")
        find(self.schedule, SCHEDULES, key="training.schedule")
        find(self.stop_on, STOPPING_SCORES, key="training.stop_on")
        if self.lora is not None:
            self._check_lora()
        if self.ema_decay and self.average_last > 1:
            raise SettingError(
                "training.ema_decay and training.average_last are two means of the weights; the "
                "final ones can be only one of them. Set one of the two to 0."
            )

    def _check_lora(self) -> None:
        if self.start_from is None:
            raise SettingError(
                "training.lora adapts a finished run. Give it as training.start_from, or leave "
                "lora out."
            )
        if self.ema_decay or self.average_last > 1:
            raise SettingError(
                "training.lora learns adapters, of which there is no mean. Set training.ema_decay "
                "and training.average_last to 0."
            )


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """All settings of a run."""

    data: DataRecipe
    training: TrainingRecipe
    tokens: TokensRecipe = field(default_factory=TokensRecipe)
    model: Spec = field(default_factory=TransformerSpec)
    pictures: PicturesRecipe | None = None
    """Only for models that read pictures."""

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
    """Read a recipe file, with `section.key=value` changes on top, and check its task."""
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
    _check_frozen(recipe.model, recipe.pictures_or_default, mistakes)


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
        return None if reader is None else reader.examples
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
        if (choice := parts.get(split)) is not None:
            _source(choice, split, f"data.{split}", mistakes)
            _same_form(parts.get("train", choice), choice, f"data.{split}", mistakes)


def _same_form(train: Choice, other: Choice, path: str, mistakes: Mistakes) -> None:
    """Check that validation and test texts have the form of the training texts."""
    for key in ("normalise", "tags", "has_trees"):
        wanted, found = (_setting(each, key) for each in (train, other))
        # texts with tags and trees may also come from a reader without these settings
        if found != wanted and (key == "normalise" or None not in (wanted, found)):
            mistakes.add(f"{path}.{key}", f"must be that of data.train, {wanted!r}, got {found!r}.")


def _setting(choice: Choice, key: str) -> Any:
    """A reader's setting, its own where none is given; None of one that does not have it."""
    return choice.settings.get(key, getattr(READERS.get(choice.name), key, None))


def _within_unit(name: str, value: float) -> None:
    if not 0.0 <= value < 1.0:
        raise SettingError(f"{name} must lie in [0, 1), got {value}.")


def _plain(value: Any) -> Any:
    """The value as TOML can hold it: no None, no tuples, no paths, choices as tables."""
    if isinstance(value, dict):
        if set(value) == {"name", "settings"}:
            return {"name": value["name"], **_plain(dict(value["settings"]))}
        return {key: _plain(each) for key, each in value.items() if each is not None}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return str(value) if isinstance(value, Path) else value
