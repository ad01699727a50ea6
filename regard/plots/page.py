"""A page in one file: light and dark, and nothing asked of the network.

The page forbids it to itself: its policy allows what is written inside it and nothing else.
"""

from collections.abc import Sequence
from html import escape

POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"

STYLE = """
:root { color-scheme: light dark; --ground: #fff; --ink: #1b1b1b; --quiet: #5a5a5a;
  --grid: #8884; --mark: #ffe2b0;
  --line-1: #0072b2; --line-2: #d55e00; --line-3: #008f68; --line-4: #b0568c; --line-5: #6a5acd;
  --line-6: #8a6d00; --line-7: #7f7f7f; }
@media (prefers-color-scheme: dark) { :root { --ground: #16181b; --ink: #e9e9e9; --quiet: #a9adb3;
  --mark: #5c4310;
  --line-1: #56b4e9; --line-2: #e69f00; --line-3: #2fc79b; --line-4: #e08cbf; --line-5: #a79bff;
  --line-6: #d9c25a; --line-7: #b5b5b5; } }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem;
  background: var(--ground); color: var(--ink); }
h1 { line-height: 1.2; } h2 { margin-top: 2.5rem; }
p, li { max-width: 44rem; } .quiet { color: var(--quiet); }
figure { margin: 1.5rem 0; max-width: 44rem; } figcaption { font-weight: 600; }
figcaption span { font-weight: 400; margin-left: 1rem; white-space: nowrap; }
figcaption i { display: inline-block; width: 1.2em; height: 3px; margin-right: .4em;
  vertical-align: middle; }
svg { width: 100%; height: auto; } svg text { font-size: 12px; fill: currentColor; }
.grid { stroke: var(--grid); } .line { fill: none; stroke-width: 2; }
.wide { overflow-x: auto; margin: 1.5rem 0; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
caption { text-align: left; font-weight: 600; padding-bottom: .3rem; }
td, th { padding: .25rem 1rem .25rem 0; text-align: left; vertical-align: top; }
td { white-space: pre; } td[dir] { white-space: normal; min-width: 16rem; }
thead th { border-bottom: 1px solid var(--grid); }
mark { background: var(--mark); color: inherit; border-radius: 2px;
  text-decoration: underline dotted; }
pre { overflow-x: auto; padding: 1rem; border: 1px solid var(--grid); }
code { overflow-wrap: anywhere; }
"""


def page(title: str, body: Sequence[str], *, style: str = "") -> str:
    """A whole HTML document around these parts, which must be HTML already.

    Args:
        title: plain text.
        body: what stands below the title, in order.
        style: rules of this page alone, after the house's.
    """
    return (
        '<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        '<meta name="viewport" content="width=device-width">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}{style}</style>\n"
        f"<main>\n<h1>{escape(title)}</h1>\n{chr(10).join(body)}\n</main>\n</html>\n"
    )


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
