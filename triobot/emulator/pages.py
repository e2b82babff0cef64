"""The page's files, and bundles of these files: one script, one style sheet, a page that needs no server."""

from __future__ import annotations

import json
import posixpath
import re
from pathlib import Path
from typing import Final

from ..wire.rules import JsonValue
from .views import json_for_pages

_ASSETS: Final = Path(__file__).with_name("page") / "assets"
TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
# The files are listed once at the start, so that no requested name can lead out of the folder.
FILES: Final = {
    path.relative_to(_ASSETS).as_posix(): path for path in _ASSETS.rglob("*") if path.suffix in TYPES
}
_SHEET: Final = re.compile(r' *<link rel="stylesheet" href="/page/([^"]+)" />\n')
_SCRIPT: Final = re.compile(r' *<script type="module" src="/page/([^"]+)"></script>\n')
_ICON: Final = re.compile(r' *<link rel="icon"[^>]*>\n')
_IMPORT: Final = re.compile(r'^import (\{[^}]*\}|\w+) from "([^"]+)";$', re.MULTILINE)
_EXPORT: Final = re.compile(r"^export ((?:async )?(?:function|const|class)) (\w+)", re.MULTILINE)
# The forms of the export statement at the end of the two bundled libraries.
_EXPORTS: Final = re.compile(r"\bexport(\{[^}]*\});$", re.MULTILINE)
_DEFAULT: Final = re.compile(r"\bexport default (.*)", re.DOTALL)
_NAMED: Final = re.compile(r"([\w$]+) as ([\w$]+)")
_LOAD: Final = """\
"use strict";
const made = {};
const load = (name) => (made[name] ??= parts[name]());
const parts = {
"""


def script_of(*first: str) -> str:
    """Return the scripts `first`, and all scripts that they import, as one classic script.

    The classic script runs the scripts `first` in this order. Each script becomes a function that returns
    the script's exports; ``load`` calls this function once for all importing scripts.
    """
    parts = dict[str, str]()
    for name in first:
        _gather(name, parts)
    return f"{_LOAD}{''.join(parts.values())}}};\n{''.join(f'load({json.dumps(name)});' for name in first)}\n"


def _gather(name: str, parts: dict[str, str]) -> None:
    if name in parts:
        return
    parts[name] = ""
    exported = list[str]()

    def imported(found: re.Match[str]) -> str:
        other = posixpath.normpath(posixpath.join(posixpath.dirname(name), found[2]))
        _gather(other, parts)
        names = _NAMED.sub(r"\1: \2", found[1])
        names = names if names.startswith("{") else f"{{ default: {names} }}"
        return f"const {names} = load({json.dumps(other)});"

    def declared(found: re.Match[str]) -> str:
        exported.append(found[2])
        return f"{found[1]} {found[2]}"

    text = _EXPORT.sub(declared, _IMPORT.sub(imported, FILES[name].read_text("utf-8")))
    text = _EXPORTS.sub(lambda found: "return " + _NAMED.sub(r"\2: \1", found[1]), text)
    text = _DEFAULT.sub(r"return { default: \1 };", text)
    parts[name] = f"{json.dumps(name)}: () => {{\n{text}\nreturn {{ {', '.join(exported)} }};\n}},\n"


def sheet_of(page: str) -> str:
    """Return all style sheets of a page as one style sheet."""
    return "\n".join(
        FILES[name].read_text("utf-8") for name in _SHEET.findall(FILES[page].read_text("utf-8"))
    )


def page_of(page: str) -> str:
    """Return a page that loads its scripts in one request, and its style sheets in another request."""
    text = _SHEET.sub("", FILES[page].read_text("utf-8"))
    text = _SCRIPT.sub('    <script defer src="/page/all.js"></script>\n', text)
    return text.replace("</head>", '  <link rel="stylesheet" href="/page/all.css" />\n  </head>')


def script_of_page(page: str) -> str:
    """Return all scripts of a page as one script."""
    return script_of(*_SCRIPT.findall(FILES[page].read_text("utf-8")))


def page_alone(page: str, first: str, content: JsonValue) -> str:
    """Return a page that opens from a file and sends no requests.

    Args:
        first: script that runs before the page's scripts, and answers the requests of these scripts from
            `content`.
        content: JSON that the page contains.
    """
    text = FILES[page].read_text("utf-8")
    scripts = _SCRIPT.findall(text)
    for gone in (_SHEET, _SCRIPT, _ICON):
        text = gone.sub("", text)
    script, within = script_of(first, *scripts), f"<style>\n{sheet_of(page)}</style>\n"
    answers = json_for_pages(content).replace("<", "\\u003c")
    behind = f'<script type="application/json" id="told">{answers}</script>\n<script>\n{script}</script>\n'
    return text.replace("</head>", f"{within}</head>").replace("</body>", f"{behind}</body>")
