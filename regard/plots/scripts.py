"""Scripts and style sheets of exported pages, which must stand inside the page.

A page on disk cannot load modules, so this file joins the modules that the studio loads one by one
into one script: each becomes a function that returns its exports, called after those that it
imports. The licences of vendored code come first.
"""

import re
from pathlib import Path

HERE = Path(__file__).resolve().parent
DRAWING = HERE / "drawing"
"""The folder of the drawing modules that the studio and exported pages share."""
IMPORT = re.compile(r'^import \{([^}]*)\} from "([^"]+)";$', re.MULTILINE)
EXPORT = re.compile(r"^export (?=(?:async )?(?:function|const|class) (\w+))", re.MULTILINE)
EXPORTED_NAMES = re.compile(r"\bexport\s*\{([^}]*)\};?")
"""How minified modules end: `export{a as h,b as html}`."""


def style_sheet(name: str) -> str:
    """The rules of a file of this folder."""
    return (HERE / name).read_text(encoding="utf-8")


def joined_script(name: str) -> str:
    """One script of a module of this folder and of all that it imports."""
    parts: dict[Path, str] = {}
    _join(HERE / name, parts)
    vendor = sorted({path.parent for path in parts} - {DRAWING, HERE})
    notices = [path.read_text() for folder in vendor for path in sorted(folder.glob("*.txt"))]
    comment = "".join(f"/*\n{notice.strip()}\n*/\n" for notice in notices)
    body = "\n".join(parts.values())
    return f'{comment}(() => {{\n"use strict";\nconst modules = {{}};\n{body}\n}})();'


def _join(path: Path, parts: dict[Path, str]) -> None:
    """Append a module to the parts, after the modules that it imports."""
    if path in parts:
        return
    text = path.read_text(encoding="utf-8")
    exported: list[str] = []

    def take(found: re.Match[str]) -> str:
        names, other = found[1], (path.parent / found[2]).resolve()
        _join(other, parts)
        return f"const {{{_renamed(names)}}} = modules[{_name(other)}];"

    def give(found: re.Match[str]) -> str:
        exported.append(found[1])
        return ""

    def give_renamed(found: re.Match[str]) -> str:
        pairs = [part.split(" as ") for part in found[1].split(",")]
        exported.extend(f"{pair[-1].strip()}: {pair[0].strip()}" for pair in pairs)
        return ""

    text = EXPORTED_NAMES.sub(give_renamed, EXPORT.sub(give, IMPORT.sub(take, text)))
    given = f"return {{ {', '.join(exported)} }};"
    parts[path] = f"modules[{_name(path)}] = (() => {{\n{text}\n{given}\n}})();"


def _renamed(names: str) -> str:
    return names.replace(" as ", ": ")


def _name(path: Path) -> str:
    return f'"{path.relative_to(HERE).as_posix()}"'
