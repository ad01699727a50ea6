"""Optimisers: what turns a gradient into an update, each with its settings and what it remembers.

    adam       θ ← θ - lr · m / (sqrt(v) + eps)           m, v: decaying means of g and g²; AdamW
    sgd        θ ← θ - lr · g                             or of g's decaying sum, with momentum
    adadelta   θ ← θ - lr · g · rms(Δ) / rms(g)           rms over decaying means, each with eps
    rmsprop    θ ← θ - lr · g / (sqrt(v - ḡ²) + eps)      ḡ = 0 unless it is centred

Paper: Kingma & Ba 2015, Loshchilov & Hutter 2019 (adam); Luong, Pham & Manning 2015, section 4.1
(sgd); Zeiler 2012 as in Bahdanau, Cho & Bengio 2015, appendix B.2 (adadelta); Tieleman & Hinton
2012, as Xu et al. 2015 have it (rmsprop).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, final, runtime_checkable

from torch.optim import SGD, Adadelta, AdamW, Optimizer, RMSprop
from torch.optim import Adam as AnyAdam

from regard.errors import SettingError, check_share

Groups = Sequence[dict[str, Any]]
"""Parameters, in groups with settings of their own."""


@runtime_checkable
class AdamSettings(Protocol):
    """The keys of [training] that are Adam's."""

    @property
    def beta1(self) -> float:
        """The decay of m."""

    @property
    def beta2(self) -> float:
        """The decay of v."""

    @property
    def eps(self) -> float:
        """What guards against division by zero."""


@runtime_checkable
class OptimiserRecipe(Protocol):
    """An optimiser with its settings."""

    @property
    def n_numbers(self) -> int:
        """How many numbers it remembers for each weight."""

    def build(self, groups: Groups, training: AdamSettings) -> Optimizer:
        """The optimiser of some parameters; its learning rate is set before each update."""


@final
@dataclass(frozen=True)
class Adam:
    """Adam with decoupled decay; its settings are keys of [training]."""

    n_numbers = 2

    def build(self, groups: Groups, training: AdamSettings) -> Optimizer:
        """torch.optim.AdamW, fused."""
        betas = (training.beta1, training.beta2)
        return AdamW(groups, lr=1.0, betas=betas, eps=training.eps, fused=True)


@final
@dataclass(frozen=True, kw_only=True)
class Sgd:
    """Stochastic gradient descent; Luong's begins with learning_rate = 1, and halves it."""

    momentum: float = 0.0

    def __post_init__(self) -> None:
        check_share("sgd: momentum", self.momentum)

    @property
    def n_numbers(self) -> int:
        """A sum of gradients, with momentum."""
        return int(self.momentum > 0)

    def build(self, groups: Groups, training: AdamSettings) -> Optimizer:
        """torch.optim.SGD."""
        return SGD(groups, lr=1.0, momentum=self.momentum)


@final
@dataclass(frozen=True, kw_only=True)
class AdadeltaRule:
    """Adadelta, whose steps have the weights' own unit: learning_rate = 1 is the paper's."""

    rho: float = 0.95
    eps: float = 1e-6
    n_numbers = 2

    def __post_init__(self) -> None:
        check_share("adadelta: rho", self.rho)
        _check_positive("adadelta: eps", self.eps)

    def build(self, groups: Groups, training: AdamSettings) -> Optimizer:
        """torch.optim.Adadelta."""
        return Adadelta(groups, lr=1.0, rho=self.rho, eps=self.eps)


@final
@dataclass(frozen=True, kw_only=True)
class RmsProp:
    """RMSProp; centred, it divides by the gradient's standard deviation."""

    decay: float = 0.95
    eps: float = 1e-8
    momentum: float = 0.0
    is_centred: bool = False

    def __post_init__(self) -> None:
        check_share("rmsprop: decay", self.decay)
        check_share("rmsprop: momentum", self.momentum)
        _check_positive("rmsprop: eps", self.eps)

    @property
    def n_numbers(self) -> int:
        """A mean square; a mean where it is centred, and a sum with momentum."""
        return 1 + self.is_centred + (self.momentum > 0)

    def build(self, groups: Groups, training: AdamSettings) -> Optimizer:
        """torch.optim.RMSprop."""
        return RMSprop(
            groups,
            lr=1.0,
            alpha=self.decay,
            eps=self.eps,
            momentum=self.momentum,
            centered=self.is_centred,
        )


OPTIMISERS: Mapping[str, type[OptimiserRecipe]] = {
    "adam": Adam,
    "sgd": Sgd,
    "adadelta": AdadeltaRule,
    "rmsprop": RmsProp,
}
"""The names that `training.optimiser` may have."""


def remembered_by(optimiser: Optimizer) -> tuple[str, ...]:
    """The names of what an optimiser remembers for each weight, as torch calls them."""
    group = optimiser.param_groups[0]
    extra = {
        "momentum_buffer": bool(group.get("momentum")),
        "grad_avg": bool(group.get("centered")),
    }
    own = next(names for kind, names in _REMEMBERED.items() if isinstance(optimiser, kind))
    return (*own, *(name for name, is_kept in extra.items() if is_kept))


_REMEMBERED: Mapping[type, tuple[str, ...]] = {
    AnyAdam: ("exp_avg", "exp_avg_sq", "step"),
    SGD: (),
    Adadelta: ("square_avg", "acc_delta", "step"),
    RMSprop: ("square_avg", "step"),
}


def _check_positive(name: str, value: float) -> None:
    if not 0 < value < float("inf"):
        raise SettingError(f"{name} must be above 0, got {value}.")
