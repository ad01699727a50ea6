"""Dims: the sizes that a model passes to its parts, and the legend of tensor shapes.

    b batch · h heads · q query positions · k key positions · d head width · m model width
    f feed-forward width · n sequence positions · s memory slots · w window positions

Tensors inside an attention are `b h q d`. Masks are boolean, True = may attend.
"""

from dataclasses import dataclass
from numbers import Integral

from regard.errors import DimsError


@dataclass(frozen=True, kw_only=True)
class Dims:
    """Widths and counts shared by the parts of one attention.

    A part that compares vectors (a score, a selection) reads `d_query`, `d_key`, `d_value`: the
    widths of its inputs. `head()` turns the sizes of a model into those of one of its heads.
    """

    d_model: int
    n_heads: int = 1
    d_query: int | None = None
    d_key: int | None = None
    d_value: int | None = None
    """Widths of queries, keys and values; the model width unless given."""
    head_width: int | None = None
    """Width of one head; the heads share the model width equally unless given."""
    max_len: int = 512
    """Longest sequence, for parts that have parameters for each position."""

    def __post_init__(self) -> None:
        for name in ("d_model", "n_heads", "d_query", "d_key", "d_value", "head_width", "max_len"):
            size = getattr(self, name)
            if size is None:
                continue
            if not isinstance(size, Integral):
                raise DimsError(f"dims: {name} must be a whole number, got {size!r}.")
            if size < 1:
                raise DimsError(f"dims: {name} must be at least 1, got {size}.")

    @property
    def query(self) -> int:
        """Width of a query."""
        return self.d_query or self.d_model

    @property
    def key(self) -> int:
        """Width of a key."""
        return self.d_key or self.d_model

    @property
    def value(self) -> int:
        """Width of a value."""
        return self.d_value or self.d_model

    @property
    def d_head(self) -> int:
        """Width of one head."""
        if self.head_width is not None:
            return self.head_width
        if self.d_model % self.n_heads:
            fits = [n for n in range(1, self.d_model + 1) if self.d_model % n == 0]
            near = min(fits, key=lambda n: abs(n - self.n_heads))
            wider = self.n_heads * -(-self.d_model // self.n_heads)
            raise DimsError(
                f"dims: n_heads ({self.n_heads}) must divide d_model ({self.d_model}): a head "
                f"would be {self.d_model / self.n_heads:.2f} wide. Take {near} heads of "
                f"{self.d_model // near}, or d_model = {wider}."
            )
        return self.d_model // self.n_heads

    def head(self) -> "Dims":
        """The sizes for the links inside one multi-head attention."""
        return Dims(d_model=self.d_head, n_heads=self.n_heads, max_len=self.max_len)


def check_dims(who: str, dims: object) -> None:
    """Refuse what are no sizes, such as a width alone."""
    if not isinstance(dims, Dims):
        raise DimsError(
            f"{who}: expected sizes, got {dims!r:.40} ({type(dims).__name__}). Write "
            "Dims(d_model=64, n_heads=4), with your numbers."
        )
