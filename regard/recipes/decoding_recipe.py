"""The [decoding] section of a recipe: the rules by which a run's answers are searched for."""

from collections.abc import Sequence
from dataclasses import dataclass

from regard.decoding.rules import NoRepeatedNgrams, RepetitionPenalty, Rule
from regard.errors import SettingError, check_least


@dataclass(frozen=True, kw_only=True)
class DecodingRecipe:
    """Rules against repetitions; the options of `regard predict` win over them."""

    repetition_penalty: float = 1.0
    """What multiplies the log-probabilities of tokens already in the answer; 1 leaves them."""
    no_repeated_ngrams: int = 0
    """So many tokens in a row are never written twice; 0 allows it."""

    def __post_init__(self) -> None:
        if not 1.0 <= self.repetition_penalty < float("inf"):
            raise SettingError(
                "decoding.repetition_penalty must be a finite number of at least 1, got "
                f"{self.repetition_penalty}. Give 1 for none."
            )
        check_least("decoding.no_repeated_ngrams", self.no_repeated_ngrams, 0)

    @property
    def rules(self) -> Sequence[Rule]:
        """The rules that change something."""
        rules: list[Rule] = []
        if self.repetition_penalty > 1:
            rules.append(RepetitionPenalty(self.repetition_penalty))
        if self.no_repeated_ngrams:
            rules.append(NoRepeatedNgrams(self.no_repeated_ngrams))
        return tuple(rules)
