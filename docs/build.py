"""Fill the generated parts of the pages: facts from the docstrings, pictures, measured cost.

    python docs/build.py            facts and pictures, from the code
    python docs/build.py --check    fail if a page is not what the code says

Measured figures come from docs/benchmarks.json, written by `regard bench attention --out …`, and
from studies/NAME/results.json, written by the study of that name.
"""

import argparse
import json
import re
import sys
from pathlib import Path

from docs.exports import export_table
from regard.catalogue import Mechanism, mechanisms
from regard.cli.explain import COMPUTED
from regard.cli.explanations import kept_lines
from regard.inspecting import example
from regard.plots import heatmap
from regard.serving.v1 import openapi_of_v1
from studies.ablations import page as ablations
from studies.comparisons import page as comparisons
from studies.documents import page as documents
from studies.long import page as long
from studies.luong import page as luong
from studies.positions import page as positions

DOCS = Path(__file__).parent
PAGES = DOCS / "mechanisms"
PICTURES = DOCS / "img" / "mechanisms"
RESULTS = DOCS / "benchmarks.json"
STUDIES = {
    "ablations": ablations,
    "comparisons": comparisons,
    "documents": documents,
    "long": long,
    "luong": luong,
    "positions": positions,
}
"""Pages whose tables and pictures come from a study, and the module that makes them."""


def facts(entry: Mechanism) -> str:
    settings = ", ".join(f"`{name} = {value}`" for name, value in entry.settings.items())
    return "\n".join(
        [
            "```text",
            entry.equation,
            "```",
            "",
            f"![{entry.name} on 16 positions](../img/mechanisms/{entry.name}.png)",
            "",
            f"Paper: {entry.paper}  ",
            f"Settings: {settings or 'none'}  ",
            f"Source: [{entry.file}](../../{entry.file})",
        ]
    )


def cost(entry: Mechanism) -> str:
    lines = [entry.cost]
    rows = [row for row in results()["rows"] if row["name"] == entry.name]
    if rows:
        lines += [
            "",
            "| length | forward and backward | times as fast as dense | memory, share of dense |",
            "|---:|---:|---:|---:|",
            *(_row(row) for row in rows),
        ]
        lines += ["", "Measured: see [benchmarks](../benchmarks.md)."]
    return "\n".join(lines)


def _row(row: dict) -> str:
    if row["both_s"] is None:
        return f"| {row['n']} | {row['problem']} | | |"
    speed = "" if row["speed_up"] is None else f"{row['speed_up']:.2g}"
    memory = "" if row["memory"] is None else f"{row['memory']:.2g}"
    return f"| {row['n']} | {1000 * row['both_s']:.3g} ms | {speed} | {memory} |"


def results() -> dict:
    return json.loads(RESULTS.read_text()) if RESULTS.exists() else {"rows": []}


def mechanism_table() -> str:
    lines = ["| mechanism | kind | what it does | paper |", "|---|---|---|---|"]
    for entry in mechanisms():
        summary = entry.summary.partition(": ")[2] or entry.summary
        link = f"[{entry.name}](mechanisms/{entry.name}.md)"
        lines.append(f"| {link} | {entry.kind} | {summary} | {entry.paper} |")
    return "\n".join(lines)


def benchmark_table() -> str:
    got = results()
    lines = [
        f"regard {got.get('regard')}, torch {got.get('torch')}, {got.get('cores')} cores, "
        f"{got.get('threads')} threads, {got.get('date')}. Batch 1, 8 heads of 64, float32.",
    ]
    for n in dict.fromkeys(row["n"] for row in got["rows"]):
        lines += [
            "",
            f"### n = {n}",
            "",
            "| mechanism | forward ms | × dense | × SDPA | forward+backward ms | × dense | × SDPA "
            "| extra MiB | of dense | of SDPA |",
            "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
            *(_wide_row(row) for row in got["rows"] if row["n"] == n),
        ]
    return "\n".join(lines)


def _wide_row(row: dict) -> str:
    if row["both_s"] is None:
        return f"| {row['name']} | {row['problem']} |" + " |" * 8
    cells = [
        f"{1000 * row['forward_s']:.3g}",
        _two(row["forward_speed_up"]),
        _two(row["forward_speed_up_over_sdpa"]),
        f"{1000 * row['both_s']:.3g}",
        _two(row["speed_up"]),
        _two(row["speed_up_over_sdpa"]),
        f"{row['both_bytes'] / 2**20:.3g}",
        _two(row["memory"]),
        _two(row["memory_of_sdpa"]),
    ]
    return f"| {row['name']} | " + " | ".join(cells) + " |"


def _two(ratio: float | None) -> str:
    return "-" if ratio is None else f"{ratio:.2g}"


def filled(text: str, mark: str, content: str) -> str:
    pattern = re.compile(rf"<!-- begin {mark} -->.*?<!-- end {mark} -->", re.DOTALL)
    block = f"<!-- begin {mark} -->\n{content}\n<!-- end {mark} -->"
    if not pattern.search(text):
        raise SystemExit(f"docs: the mark '{mark}' is missing.")
    return pattern.sub(lambda _: block, text)


def pages() -> dict[Path, str]:
    """Every generated page with the text it should have."""
    made = {}
    for entry in mechanisms():
        page = PAGES / f"{entry.name}.md"
        text = filled(page.read_text(), "facts", facts(entry))
        made[page] = filled(text, "cost", cost(entry))
    table, bench = DOCS / "mechanisms.md", DOCS / "benchmarks.md"
    made[table] = filled(table.read_text(), "mechanisms", mechanism_table())
    made[bench] = filled(bench.read_text(), "attention", benchmark_table())
    made[COMPUTED] = kept_lines()
    exporting = DOCS / "exporting.md"
    made[exporting] = filled(exporting.read_text(), "exports", export_table())
    made[DOCS / "openapi.json"] = json.dumps(openapi_of_v1(), indent=1) + "\n"
    for name, study in STUDIES.items():
        page = DOCS / f"{name}.md"
        made[page] = page.read_text()
        for mark, content in study.tables().items():
            made[page] = filled(made[page], mark, content)
        made |= study.pictures()
    return made


def _held(page: Path) -> str:
    return page.read_text() if page.exists() else ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing; say what is stale")
    if parser.parse_args().check:
        stale = [page.name for page, text in pages().items() if _held(page) != text]
        print(f"stale: {', '.join(stale)}. Run make docs." if stale else "every page is current")
        return 1 if stale else 0
    PICTURES.mkdir(parents=True, exist_ok=True)
    for entry in mechanisms():
        picture = example(entry.name)
        figure = heatmap(
            picture.numbers,
            row_title=picture.rows,
            column_title=picture.columns,
            meaning=picture.meaning,
        )
        figure.savefig(PICTURES / f"{entry.name}.png", dpi=110)
    for page, text in pages().items():
        page.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
