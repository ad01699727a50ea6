"""What is sent to the server, checked before anything is computed."""

from pydantic import BaseModel, ConfigDict, Field

from regard.serving.worked_steps import MOST_ROWS, Projections, Wished

MOST_CHARACTERS = 400_000
"""Of a text."""

Row = list[float]
Rows = list[Row]


class AskedToPredict(BaseModel):
    """A text to answer."""

    model_config = ConfigDict(extra="forbid")

    text: str = Field(max_length=MOST_CHARACTERS)
    target: str | None = Field(default=None, max_length=MOST_CHARACTERS)
    """An answer to look at instead of the model's own."""
    n_best: int = Field(default=5, ge=1, le=5)
    max_tokens: int | None = None
    """Longest answer; 50 tokens beyond the text, 300 at most, unless given."""


class AskedHead(BaseModel):
    """The matrices of one head of the worked example."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    W_Q: Rows = Field(max_length=2 * MOST_ROWS)
    W_K: Rows = Field(max_length=2 * MOST_ROWS)
    W_V: Rows = Field(max_length=2 * MOST_ROWS)


class AskedToWork(BaseModel):
    """The worked example with other numbers."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    queries: Rows = Field(max_length=MOST_ROWS)
    keys: Rows = Field(max_length=MOST_ROWS)
    heads: list[AskedHead] = Field(min_length=1, max_length=4)
    W_O: Rows = Field(max_length=4 * MOST_ROWS)
    is_scaled: bool = False
    is_causal: bool = False
    temperature: float = Field(default=1.0, gt=0)

    def wished(self) -> Wished:
        """The same for `worked_steps`."""
        heads = [Projections(one.W_Q, one.W_K, one.W_V) for one in self.heads]
        return Wished(
            self.queries, self.keys, heads, self.W_O, self.is_scaled, self.is_causal,
            self.temperature,
        )  # fmt: skip
