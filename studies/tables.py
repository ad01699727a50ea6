"""Tables of the pages in Markdown."""

import re
from collections.abc import Sequence


def table(head: Sequence[str], rows: Sequence[Sequence[str]], *, names: int = 1) -> str:
    """A table whose first columns, as many as there are names, are words."""
    marks = "|---" * names + "|---:" * (len(head) - names) + "|"
    lines = [f"| {' | '.join(line)} |" for line in (head, *rows)]
    # an empty cell is one space wide
    return re.sub(r"(?<=\|) +(?=\|)", " ", "\n".join([lines[0], marks, *lines[1:]]))
