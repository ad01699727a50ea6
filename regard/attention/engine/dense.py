"""Dense path: the reference itself. Always possible; q × k numbers."""

from typing import final

from torch import Tensor

from regard.attention.attend import Attended, attend
from regard.attention.engine.case import Case, Cost, Path, every_pair
from regard.attention.shapes import Keys, Queries, Values, Weights
from regard.places import Places


@final
class DensePath(Path):
    """Compute every score, as `attend` does."""

    name = "dense"

    def why(self, case: Case) -> str:
        """It is the reference."""
        return "the reference: every score is computed and kept"

    def cost(self, case: Case) -> Cost:
        """The cost of scores and weights of every pair."""
        return every_pair(case.short())

    def run(self, case: Case) -> Attended:
        """Compute the equations with `attend`."""
        case = case.short()
        done = by_equations(case, case.query, case.key, case.value, case.places)
        return case.attended(done.context, done.rows)


def by_equations(case: Case, query: Queries, key: Keys, value: Values, places: Places) -> Attended:
    """`attend` with the links of a case, over all of its queries or some."""
    return attend(
        query,
        key,
        value,
        case.mask,
        score=case.score,
        relation=case.relation,
        select=case.select,
        places=places,
        dropout=case.dropout,
    )


def weights_of(case: Case, rows: tuple[Tensor, ...]) -> Weights:
    """All weights of a case without a memory, with gradients, from its rows' numbers."""
    scores = case.score(case.query, case.key, case.places)
    scores = scores + case.relation.to_scores(case.query, case.places)
    return case.select.weigh(scores, case.mask.visible(case.places), rows, case.places)
