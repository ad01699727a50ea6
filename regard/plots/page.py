"""A page in one file, for light and dark themes, that loads nothing from the network.

Its content security policy allows only what is written inside the page.
"""

import json
from collections.abc import Mapping, Sequence
from html import escape

from regard.plots.scripts import joined_script, style_sheet

POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"

ESCAPED = {ord(sign): f"\\u{ord(sign):04x}" for sign in "<>&\u2028\u2029"}
"""Signs that could end a script, or a line of one."""
STYLE = f"{style_sheet('drawing/theme.css')}{style_sheet('page.css')}"


def page(title: str, body: Sequence[str], *, style: str = "") -> str:
    """A whole HTML document around a plain title and these parts, which must be HTML already."""
    return (
        '<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        '<meta name="viewport" content="width=device-width">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}{style}</style>\n"
        f"<main>\n<h1>{escape(title)}</h1>\n{chr(10).join(body)}\n</main>\n</html>\n"
    )


def data_page(
    title: str, body: Sequence[str], data: Mapping[str, object], *, script: str, style: str
) -> str:
    """A page whose script, a module of this folder, draws what the element `data` holds as JSON."""
    numbers = json.dumps(data, ensure_ascii=False, separators=(",", ":")).translate(ESCAPED)
    scripts = [
        f'<script type="application/json" id="data">{numbers}</script>',
        f"<script>{joined_script(script)}</script>",
    ]
    return page(title, [*body, *scripts], style=style)


def table(head: Sequence[str], rows: Sequence[Sequence[str]], *, caption: str) -> str:
    """A table of plain texts, line breaks kept; the first cell of a row names it."""
    heads = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in head)
    lines = "".join(
        f'<tr><th scope="row">{escape(name)}</th>'
        + "".join(f"<td>{escape(cell)}</td>" for cell in cells)
        + "</tr>"
        for name, *cells in rows
    )
    return (
        f'<div class="wide"><table><caption>{escape(caption)}</caption>'
        f"<thead><tr>{heads}</tr></thead><tbody>{lines}</tbody></table></div>"
    )
