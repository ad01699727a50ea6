"""case → context and map, by the fastest path that computes exactly the same function.

Paths are tried in order, and the first that can compute the case and is fast for its sizes runs it:
short, windowed, fused, joined, sparse, thresholded, streamed, dense. None of them checks the class
of a link; links lower themselves (`links.py`) and the paths match the lowered forms.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

from regard.attention.attend import Attended
from regard.attention.engine.case import Case, Cost, Path, every_pair
from regard.attention.engine.dense import DensePath
from regard.attention.engine.fused import FusedPath
from regard.attention.engine.joined import JoinedPath
from regard.attention.engine.sparse import SparsePath
from regard.attention.engine.streamed import StreamedPath
from regard.attention.engine.thresholded import ThresholdedPath
from regard.attention.engine.windowed import WindowedPath
from regard.choices import find
from regard.errors import PathError


@final
class ShortPath(Path):
    """Attend to the slots of a memory instead of keys, by the fastest path over them."""

    name = "short"

    def why_not(self, case: Case) -> str | None:
        """The reason, if there is no memory."""
        return "no memory shortens the keys" if case.memory is None else None

    def why(self, case: Case) -> str:
        """The number of slots, and the path that runs over them."""
        short = case.short()
        slots, inner = short.key.shape[-2], choose(short)
        return f"{case.key.shape[-2]} keys become {slots} slots, over which {inner.name} runs"

    def cost(self, case: Case) -> Cost:
        """The cost of the inner path over the slots."""
        short = case.short()
        return choose(short).cost(short)

    def run(self, case: Case) -> Attended:
        """Shorten, then run."""
        return run(case.short())


PATHS: Mapping[str, Path] = {
    "short": ShortPath(),
    "windowed": WindowedPath(),
    "fused": FusedPath(),
    "joined": JoinedPath(),
    "sparse": SparsePath(),
    "thresholded": ThresholdedPath(),
    "streamed": StreamedPath(),
    "dense": DensePath(),
}


@dataclass(frozen=True)
class Explanation:
    """The path that will run, why, and its cost, like a database's EXPLAIN."""

    path: str
    why: str
    refused: Mapping[str, str]
    """The faster paths that could not run, with the reason."""
    cost: Cost
    dense: Cost

    def __str__(self) -> str:
        lines = [f"{self.path}: {self.why}"]
        lines += [f"  not {name}: {reason}" for name, reason in self.refused.items()]
        work, numbers = (100 * n / dense for n, dense in zip(self.cost, self.dense, strict=True))
        lines.append(
            f"  {self.cost.multiply_adds:.3g} multiply-adds ({work:.3g} % of dense), "
            f"{self.cost.numbers:.3g} numbers held ({numbers:.3g} %)"
        )
        return "\n".join(lines)


def choose(case: Case, *, path: str | None = None) -> Path:
    """The fastest path for the case, or the requested one; an error if that cannot run."""
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
    """Report what `run` would do, without running it."""
    chosen = choose(case, path=path)
    refused = {}
    for name, other in PATHS.items():
        if other is chosen:
            break
        refused[name] = _why_not(other, case) or "another path was asked for"
    return Explanation(chosen.name, chosen.why(case), refused, chosen.cost(case), every_pair(case))


def _why_not(path: Path, case: Case) -> str | None:
    return path.why_not(case) or path.why_slow(case)
