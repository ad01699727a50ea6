"""Dense path: the law itself. Always possible; q × k numbers."""

from typing import final

from regard.attention.attend import Attended, attend
from regard.attention.engine.case import Case, Cost, Path, every_pair


@final
class DensePath(Path):
    """Compute every score, as `attend` does."""

    name = "dense"

    def why_not(self, case: Case) -> None:
        """Every chain can be computed pair by pair."""

    def why(self, case: Case) -> str:
        """The reference."""
        return "the reference: every score is computed and kept"

    def cost(self, case: Case) -> Cost:
        """Scores and weights of every pair."""
        return every_pair(case.short())

    def run(self, case: Case) -> Attended:
        """Follow the equations."""
        case = case.short()
        done = attend(
            case.query,
            case.key,
            case.value,
            case.mask,
            score=case.score,
            relation=case.relation,
            select=case.select,
            places=case.places,
            dropout=case.dropout,
        )
        return case.attended(done.context, done.rows)


DENSE = DensePath()
