"""The [training] section of a recipe: how a model learns, and by which adapters."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from regard.choices import Choice, find
from regard.errors import SettingError, check_least, check_share
from regard.recipes.optimisers import OPTIMISERS, OptimiserRecipe
from regard.recipes.schedules import SCHEDULES

STOPPING_SCORES = {"loss": "the lower the better", "bleu": "the higher the better"}
"""The validation scores by which training may stop early."""
NAMES: Mapping[str, Mapping[str, Any]] = {
    "optimiser": OPTIMISERS,
    "schedule": SCHEDULES,
    "stop_on": STOPPING_SCORES,
}
"""The names that keys may have."""
ADAM_S = ("beta1", "beta2", "eps", "weight_decay")
"""Keys that other optimisers do not read."""


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
        check_share("training.lora.dropout", self.dropout)
        if not self.modules:
            raise SettingError("training.lora.modules must name at least one, got none.")


@dataclass(frozen=True, kw_only=True)
class TrainingRecipe:
    """How the model learns."""

    steps: int = 0
    """Updates of the weights; 0 where epochs are given."""
    epochs: float = 0.0
    """How often training sees every example, instead of steps; the run counts them in updates."""
    target_tokens_per_update: int = 4096
    """Target tokens of one update, over all devices; one batch at least. Where targets are labels,
    the tokens of the texts."""
    target_tokens_per_batch: int = 4096
    """Target tokens, padding included, that are in memory at once; the rest is accumulated. Where
    targets are labels, the tokens of the texts."""
    schedule: str = "inverse_square_root"
    """"noam", "inverse_square_root", "cosine", "constant" or "halving"."""
    learning_rate: float = 1e-3
    """The peak; for noam a factor."""
    warmup_steps: int = 400
    """Updates until the peak."""
    halve_after: float = 0.5
    """The share of the training behind which schedule = "halving" halves the rate."""
    halve_every: float = 0.1
    """The share of the training between two halvings: a tenth is an epoch of ten."""
    branch_learning_rate: float = 0.0
    """The factor of a noam schedule of kappa and alpha's own, over width / layers; the Weighted
    Transformer's is 1, and 0 gives them the schedule of all weights."""
    branch_warmup_steps: int = 400
    """Updates until the peak of that schedule."""
    optimiser: Choice = field(default_factory=lambda: Choice("adam"))
    """"adam" (AdamW), "sgd" (Luong's, with learning_rate = 1), "adadelta" (Bahdanau's) or "rmsprop"
    (Xu's), with settings: { name = "adadelta", rho = 0.95, eps = 1e-6 }."""
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
    validation_share: float = 0.1
    """The share of the training's time for validations, by which examples are decoded at each."""
    validate_examples: int | None = None
    """How many examples are decoded at a validation; by the share of the time unless given."""
    validate_bleu: bool | None = None
    """Whether BLEU is computed at a validation; as suits the task unless given."""
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

    tables = NAMES

    def __post_init__(self) -> None:
        self._check_length()
        self._check_optimiser()
        counts = ("target_tokens_per_update", "target_tokens_per_batch")
        often = ("checkpoint_every", "validate_every", "keep_checkpoints")
        decoded = () if self.validate_examples is None else ("validate_examples",)
        for name in (*counts, *often, *decoded):
            check_least(f"training.{name}", getattr(self, name), 1)
        if not 0.0 < self.validation_share < 1.0:
            raise SettingError(
                "training.validation_share must lie between 0 and 1, both excluded, got "
                f"{self.validation_share}. Give 0.1 for a tenth of the time."
            )
        amounts = (
            "learning_rate", "eps", "weight_decay", "r_drop", "epochs", "branch_learning_rate"
        )  # fmt: skip
        for name in (
            *amounts,
            "warmup_steps",
            "branch_warmup_steps",
            "clip_norm",
            "patience",
            "average_last",
        ):
            check_least(f"training.{name}", getattr(self, name), 0)
        for name in amounts:
            value = getattr(self, name)
            if not math.isfinite(value):
                raise SettingError(f"training.{name} must be a finite number, got {value}.")
        for name in ("beta1", "beta2", "label_smoothing", "ema_decay"):
            check_share(f"training.{name}", getattr(self, name))
        if not 0 <= self.seed < 2**63:
            raise SettingError(f"training.seed must lie between 0 and 2^63 - 1, got {self.seed}.")
        find(self.schedule, SCHEDULES, key="training.schedule")
        find(self.stop_on, STOPPING_SCORES, key="training.stop_on")
        self._check_unread(
            f"schedule = '{self.schedule}'",
            () if self.schedule == "halving" else ("halve_after", "halve_every"),
        )
        self._check_unread(
            "branch_learning_rate = 0",
            () if self.branch_learning_rate else ("branch_warmup_steps",),
        )
        for name in ("halve_after", "halve_every"):
            if not 0.0 < getattr(self, name) <= 1.0:
                raise SettingError(
                    f"training.{name} must be a share of the training, above 0 and at most 1, got "
                    f"{getattr(self, name)}."
                )
        if self.lora is not None:
            self._check_lora()
        if self.ema_decay and self.average_last > 1:
            raise SettingError(
                "training.ema_decay and training.average_last are two means of the weights; the "
                "final ones can be only one of them. Set one of the two to 0."
            )

    def optimiser_recipe(self) -> OptimiserRecipe:
        """The optimiser with its settings."""
        kind = OPTIMISERS[self.optimiser.name]
        self.optimiser.check_settings(kind)
        return kind(**self.optimiser.fitted(kind))

    def _check_optimiser(self) -> None:
        """Refuse unknown settings, and Adam's keys for another optimiser."""
        name = self.optimiser.name
        find(name, OPTIMISERS, key="training.optimiser")
        try:
            self.optimiser_recipe()
        except SettingError as error:
            raise SettingError(f"training.optimiser: {error}") from error
        self._check_unread(f"optimiser = '{name}'", () if name == "adam" else ADAM_S)

    def _check_unread(self, chosen: str, unread: tuple[str, ...]) -> None:
        """Refuse a key that the chosen setting does not read."""
        defaults = {each.name: each.default for each in fields(self)}
        for name in unread:
            if getattr(self, name) != defaults[name]:
                raise SettingError(
                    f"training.{name} = {getattr(self, name):g} would do nothing: {chosen} does "
                    "not read it. Leave it out."
                )

    def _check_length(self) -> None:
        """Refuse a training whose length is not given, or is given twice."""
        check_least("training.steps", self.steps, 0)
        if self.steps and self.epochs:
            raise SettingError(
                f"training.epochs = {self.epochs:g} and training.steps = {self.steps} are two "
                "lengths of one training. Take one of them out of the recipe; behind --set, "
                "training.steps=0 does."
            )
        if not self.steps and not self.epochs:
            raise SettingError(
                "training.steps must be at least 1, got 0: it is the number of updates. Give it, "
                "or give training.epochs, how often training sees every example."
            )

    @property
    def n_validations(self) -> int:
        """How many validations there are, if `patience` does not end the training before."""
        # the last update is validated too, and the mean of checkpoints once more
        return math.ceil(self.steps / self.validate_every) + (self.average_last > 1)

    def validation_seconds(self, seconds_per_update: float) -> float:
        """How long a validation may take by the share of the time."""
        whole = self.steps * seconds_per_update / (1 - self.validation_share)
        return self.validation_share * whole / self.n_validations

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
