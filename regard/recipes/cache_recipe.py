"""The [cache] section of a recipe: the cache with which a language model's texts are scored too."""

from dataclasses import dataclass

from regard.evaluating.neural_cache import NeuralCache


@dataclass(frozen=True, kw_only=True)
class CacheRecipe:
    """The words that followed like states, for `regard evaluate --metrics cache`."""

    size: int = 2000
    """How many tokens back the cache reaches."""
    sharpness: float | None = None
    """How much likelier the word of a more similar state is; by the validation unless given."""
    share: float | None = None
    """The cache's part of the probability; by the validation text unless given."""

    def __post_init__(self) -> None:
        given = {"sharpness": self.sharpness, "share": self.share}
        known = {name: value for name, value in given.items() if value is not None}
        # the cache's own checks
        _ = NeuralCache(size=self.size, **known)
