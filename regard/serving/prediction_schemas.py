"""The typed forms of /v1: requests, answers, events and facts about runs.

Every field that a client may send or will receive is a field of a model here; docs/openapi.json is
made from them, and a test says when it changes.
"""

from typing import Annotated, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    WithJsonSchema,
    model_validator,
)

from regard.decoding.beam import DEFAULT_BEAM_WIDTH
from regard.decoding.length_penalties import DEFAULT_ALPHA
from regard.serving.schemas import MAX_TEXT_CHARACTERS

MAX_TEXTS = 256
"""The most texts or pictures of a request."""
MAX_BEAM_WIDTH = 32
MAX_PHRASES = 16
MAX_TIMEOUT_MS = 600_000
MAX_SEED = 2**63 - 1

ServedText = Annotated[str, Field(max_length=MAX_TEXT_CHARACTERS)]
_TEXT = {"type": "string", "maxLength": MAX_TEXT_CHARACTERS}
TextList = Annotated[
    list[ServedText],
    Field(min_length=1, max_length=MAX_TEXTS),
    BeforeValidator(lambda given: [given] if isinstance(given, str) else given),
    WithJsonSchema(
        {"anyOf": [_TEXT, {"type": "array", "items": _TEXT, "minItems": 1, "maxItems": MAX_TEXTS}]}
    ),
]
"""Several texts; one that is sent alone is a list of one."""
FinishReason = Literal["eos", "length", "cancelled", "deadline"]
"""The model ended the answer, a limit cut it, its request was cancelled, or its time was over."""


class SearchOptions(BaseModel):
    """How answers are searched for or drawn; requests with equal options share batches."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, allow_inf_nan=False, use_attribute_docstrings=True
    )

    beam: int = Field(default=DEFAULT_BEAM_WIDTH, ge=1, le=MAX_BEAM_WIDTH)
    """Hypotheses at a time; 1 is greedy search."""
    n_best: int = Field(default=1, ge=1, le=MAX_BEAM_WIDTH)
    """Answers for each text, best first."""
    length_penalty: float = Field(default=DEFAULT_ALPHA, ge=0, le=10)
    """The Transformer paper's alpha; 0 leaves scores as they are."""
    max_tokens: int | None = Field(default=None, ge=1)
    """Longest answer; 50 tokens beyond the text, or the model's limit, if less."""
    sample: bool = False
    """Draw answers instead of searching."""
    temperature: float = Field(default=1.0, gt=0, le=100)
    """For sample; below 1 the likely is likelier."""
    top_k: int | None = Field(default=None, ge=1)
    """For sample: among so many tokens."""
    top_p: float = Field(default=1.0, gt=0, le=1)
    """For sample: among tokens that hold so much probability."""
    alignments: bool = False
    """Link the words of an answer to those of its text."""
    on_long: Literal["error", "skip", "split"] = "error"
    """What becomes of a text that is too long."""

    @model_validator(mode="after")
    def _fits(self) -> "SearchOptions":
        if not self.sample and self.n_best > self.beam:
            raise ValueError(
                f"n_best {self.n_best} needs a beam at least as wide, got beam {self.beam}"
            )
        drawn = {"temperature", "top_k", "top_p", "seed"} & self.model_fields_set
        if drawn and not self.sample:
            raise ValueError(f"{min(drawn)} is for answers that are drawn: add sample, or leave it")
        if self.sample and {"beam", "length_penalty"} & self.model_fields_set:
            raise ValueError("answers are drawn (sample), so beam and length_penalty mean nothing")
        return self


class PredictionOptions(SearchOptions):
    """All options of a request beside what is to be answered."""

    run: str | None = None
    """The run's name; may be left out where one is served."""
    prefix: ServedText = ""
    """What every answer begins with."""
    must_contain: list[list[ServedText]] | None = Field(default=None, max_length=MAX_TEXTS)
    """For each text, phrases that its answer holds."""
    seed: int = Field(default=0, ge=0, le=MAX_SEED)
    """For sample: the same seed draws the same answers."""
    truncate: bool = False
    """Cut a text that is too long, and say so, instead of refusing it."""
    stream: bool = False
    """Send events as they come: tokens of greedy and drawn answers, and finished answers."""
    timeout_ms: int | None = Field(default=None, ge=1, le=MAX_TIMEOUT_MS)
    """Milliseconds after which the request ends with what is written."""

    def search_options(self) -> SearchOptions:
        """The part by which requests share batches."""
        given = {name: getattr(self, name) for name in SearchOptions.model_fields}
        return SearchOptions.model_construct(**given)


class PredictionRequest(PredictionOptions):
    """Texts or pictures to answer."""

    texts: TextList | None = None
    """One text or a list of them; hidden words are written [MASK]."""
    pictures: list[str] | None = Field(default=None, min_length=1, max_length=MAX_TEXTS)
    """Files of pictures as base64, for a run that captions."""

    @model_validator(mode="after")
    def _has_one(self) -> "PredictionRequest":
        if (self.texts is None) == (self.pictures is None):
            raise ValueError("give either texts or, to a run that captions, pictures")
        if self.must_contain is not None and len(self.must_contain) != self.count:
            raise ValueError(
                f"must_contain has {len(self.must_contain)} lists of phrases, but there are "
                f"{self.count} texts. Give a list, empty if need be, for each text"
            )
        return self

    @property
    def count(self) -> int:
        """How many texts or pictures there are."""
        return len(self.pictures or self.texts or ())


class OtherAnswer(BaseModel):
    """One of several answers to a text."""

    text: str
    score: float | None
    tokens: list[str]
    finish_reason: FinishReason


class HiddenWordCandidate(BaseModel):
    """A likely word for a hidden one."""

    text: str
    probability: float


class ErrorDetail(BaseModel):
    """What went wrong and what to do; `kind` is stable, `message` is for people."""

    kind: str
    message: str


class ErrorBody(BaseModel):
    """The form of every error."""

    error: ErrorDetail


class ServedAnswer(BaseModel):
    """The answer to one text, or the reason why there is none."""

    index: int
    """The place of the text in the request."""
    text: str | None = None
    score: float | None = None
    tokens: list[str] = []
    finish_reason: FinishReason | None = None
    """Null where there is an error."""
    truncated: bool = False
    """Whether the text was cut, as the request allowed."""
    source_tokens: int = 0
    alignment: str | None = None
    """Links between words in Pharaoh format, if they were requested."""
    n_best: list[OtherAnswer] = []
    """All answers, best first, where several were requested."""
    candidates: list[list[HiddenWordCandidate]] = []
    """For each hidden word, the likeliest."""
    note: str | None = None
    model: str | None = None
    """By which model, where another one answered the last text: a reload came between."""
    error: ErrorDetail | None = None


class Timing(BaseModel):
    """Milliseconds: before the model began, of the model, and in all."""

    queue_ms: float
    compute_ms: float
    total_ms: float


class PredictionResponse(BaseModel):
    """Answers in the order of their texts, and by which model they were made."""

    id: str
    """The request's id, also in the header X-Request-Id."""
    run: str
    model: str
    """Name and hash of the weights: the same model gives the same answers."""
    answers: list[ServedAnswer]
    partial: bool = False
    """Whether some answers are cut or missing, since the time was over."""
    error: ErrorDetail | None = None
    """The reason where no text has an answer, or some have none in time."""
    timing: Timing


class TokenEvent(BaseModel):
    """The data of the event `token`: a token as soon as it is written."""

    index: int
    token: str
    delta: str
    """What the token adds to the text; it may be empty until a character is whole."""


class ServedRun(BaseModel):
    """What a client needs to know of a run."""

    name: str
    model: str
    task: str
    reads: Literal["texts", "pictures"]
    kind: str
    device: str
    engine: str
    max_source_tokens: int
    max_answer_tokens: int
    default_beam: int
    parameters: int
    workers: int
    workers_ready: int
    batch_tokens: int
    waiting: int
    waiting_tokens: int
    ready: bool
    why_not_ready: str | None


class RunsResponse(BaseModel):
    """All runs."""

    runs: list[ServedRun]


class ServiceLimits(BaseModel):
    """What the server accepts; documented in docs/serving.md."""

    max_body_bytes: int
    max_picture_bytes: int
    max_texts: int
    max_text_characters: int
    max_waiting: int
    max_waiting_tokens: int
    max_timeout_ms: int
    default_timeout_ms: int
    batch_wait_ms: float


class InfoResponse(BaseModel):
    """The server, its versions and limits, and its runs."""

    version: str
    torch: str
    limits: ServiceLimits
    deterministic: str
    """What answers depend on."""
    runs: list[ServedRun]


class CancelResponse(BaseModel):
    """Which request was ended."""

    id: str
    cancelled: int
    """Texts that it still waited for."""


class HealthResponse(BaseModel):
    """Whether the server lives, or is ready; if it is not, the reasons."""

    status: Literal["good", "not ready"]
    version: str
    reasons: list[str] = []
