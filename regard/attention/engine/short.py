"""Short path: a memory shortens keys and values, then the fastest path runs over its slots."""

from typing import final

from regard.attention.attend import Attended
from regard.attention.engine.case import Case, Cost, Path
from regard.attention.engine.dense import DENSE
from regard.attention.engine.fused import FUSED
from regard.attention.engine.sparse import SPARSE


@final
class ShortPath(Path):
    """Attend to slots instead of keys."""

    name = "short"

    def why_not(self, case: Case) -> str | None:
        """There is no memory."""
        return "no memory shortens the keys" if case.memory is None else None

    def why(self, case: Case) -> str:
        """How short, and what runs over the slots."""
        short = case.short()
        slots, inner = short.key.shape[-2], _fastest(short)
        return f"{case.key.shape[-2]} keys become {slots} slots, over which {inner.name} runs"

    def cost(self, case: Case) -> Cost:
        """The inner path's, over the slots."""
        short = case.short()
        return _fastest(short).cost(short)

    def run(self, case: Case) -> Attended:
        """Shorten, then run."""
        short = case.short()
        return _fastest(short).run(short)


def _fastest(short: Case) -> Path:
    paths: tuple[Path, ...] = (FUSED, SPARSE, DENSE)
    return next(path for path in paths if path.why_not(short) is None)


SHORT = ShortPath()
