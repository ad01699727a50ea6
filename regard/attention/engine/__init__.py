"""case → context and map, by the fastest path that computes exactly the same function.

Paths are asked in order, and the first that can compute the case and pays for its sizes runs it:
short, windowed, fused, sparse, dense. None of them asks what class a link has; links lower
themselves (`links.py`) and the paths match the lowered forms.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from regard.attention.attend import Attended
from regard.attention.engine.case import Case, Cost, Path, every_pair
from regard.attention.engine.dense import DENSE
from regard.attention.engine.fused import FUSED
from regard.attention.engine.short import SHORT
from regard.attention.engine.sparse import SPARSE
from regard.attention.engine.windowed import WINDOWED
from regard.choices import find
from regard.errors import PathError

PATHS: Mapping[str, Path] = {
    "short": SHORT,
    "windowed": WINDOWED,
    "fused": FUSED,
    "sparse": SPARSE,
    "dense": DENSE,
}


@dataclass(frozen=True)
class Explanation:
    """Which path will run, why, and what it costs, as a database explains a query."""

    path: str
    why: str
    refused: Mapping[str, str]
    """The faster paths that could not run, with the reason."""
    cost: Cost
    dense: Cost

    def __str__(self) -> str:
        lines = [f"{self.path}: {self.why}"]
        lines += [f"  not {name}: {reason}" for name, reason in self.refused.items()]
        work, numbers = self.cost.multiply_adds, self.cost.numbers
        lines.append(
            f"  {work:.3g} multiply-adds ({_share(work, self.dense.multiply_adds)} of dense), "
            f"{numbers:.3g} numbers held ({_share(numbers, self.dense.numbers)})"
        )
        return "\n".join(lines)


def choose(case: Case, *, path: str | None = None) -> Path:
    """The fastest path for the case, or the one asked for, or an error that names the remedy."""
    if path is None:
        return next(p for p in PATHS.values() if _why_not(p, case) is None)
    asked = find(path, PATHS)
    if reason := asked.why_not(case):
        raise PathError(
            f"engine: the {path} path cannot compute this chain: {reason}. Leave path out, and "
            f"{choose(case).name} will run; or build the chain of links this path takes "
            "(regard list names them, SoftSelection and ScaledDotScore suit every path)."
        )
    return asked


def run(case: Case, *, path: str | None = None) -> Attended:
    """Compute the case."""
    return choose(case, path=path).run(case)


def explain(case: Case, *, path: str | None = None) -> Explanation:
    """Say what `run` would do, without doing it."""
    chosen = choose(case, path=path)
    refused = {}
    for name, other in PATHS.items():
        if other is chosen:
            break
        refused[name] = _why_not(other, case) or "another path was asked for"
    return Explanation(chosen.name, chosen.why(case), refused, chosen.cost(case), every_pair(case))


def _why_not(path: Path, case: Case) -> str | None:
    return path.why_not(case) or path.why_slow(case)


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.3g} %"
