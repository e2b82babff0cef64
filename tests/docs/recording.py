"""The terminal demo as a moving picture: ``python -m tests.docs.recording`` runs it and draws what it says.

A line comes each third of a second, which is slower than the demo itself: it is to be read.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final
from xml.sax.saxutils import escape

PICTURE: Final = Path(__file__).parents[2] / "docs" / "images" / "demo.svg"

_COMMAND: Final = "$ triobot demo"
# What differs from run to run.
_PORT: Final = re.compile(r"(127\.0\.0\.1):[0-9]+")
_SUM: Final = re.compile(r", SHA-256 [0-9a-f]+\.\.\.")
_ROWS: Final = 22
_LINE, _LETTER, _RIM, _BAR = 20, 7.9, 18, 34
_EACH: Final = 0.34
_REST: Final = 5.0
"""Seconds for which the whole stays, before it begins anew."""

_COLOURS: Final = (
    (re.compile(r"\$ "), "#e2e8f0"),
    (re.compile(r" +bot : "), "#5eead4"),
    (re.compile(r" +Sara : "), "#fcd34d"),
    (re.compile(r" +true: "), "#86efac"),
)
_OTHER: Final = "#94a3b8"


def said_by_the_demo(output: str) -> list[str]:
    """Return its lines without what differs from run to run."""
    return _SUM.sub("", _PORT.sub(r"\1", output)).rstrip("\n").split("\n")


def draw(lines: Sequence[str]) -> str:
    """Return the picture as text."""
    told = [_COMMAND, *lines]
    seconds = _EACH * len(told) + _REST
    width = round(2 * _RIM + _LETTER * max(map(len, told)))
    height = _BAR + _LINE * _ROWS + _RIM
    over = len(told) - _ROWS
    style = [
        "text{font:13px ui-monospace,Menlo,Consolas,monospace;white-space:pre}",
        f"text{{animation:{seconds:.2f}s infinite}}",
        f"g g{{animation:up {seconds:.2f}s steps(1,end) infinite}}",
        *(f"#l{n}{{animation-name:s{n}}}" for n in range(1, len(told))),
        *(_appears(n, _EACH * n / seconds) for n in range(1, len(told))),
        "@keyframes up{0%{transform:none}",
        *(f"{_part(_EACH * (_ROWS + n) / seconds)}{{{_moved(n + 1)}}}" for n in range(over)),
        f"100%{{{_moved(over)}}}}}",
        # Who wants nothing to move sees the end.
        f"@media(prefers-reduced-motion:reduce){{text,g g{{animation:none}}g g{{{_moved(over)}}}}}",
    ]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}"'
            f' height="{height}" role="img" aria-label="The terminal while triobot demo runs">',
            f"<style>{''.join(style)}</style>",
            f'<rect width="{width}" height="{height}" rx="10" fill="#0f172a"/>',
            *(f'<circle cx="{_RIM + 18 * n}" cy="17" r="5.5" fill="#334155"/>' for n in range(3)),
            f'<clipPath id="window"><rect y="{_BAR}" width="{width}" height="{_LINE * _ROWS}"/></clipPath>',
            '<g clip-path="url(#window)"><g>',
            *(_text(n, line) for n, line in enumerate(told)),
            "</g></g>",
            "</svg>\n",
        ]
    )


def _text(n: int, line: str) -> str:
    colour = next((colour for begins, colour in _COLOURS if begins.match(line)), _OTHER)
    return f'<text id="l{n}" x="{_RIM}" y="{_BAR + _LINE * n + 14}" fill="{colour}">{escape(line)}</text>'


def _appears(n: int, part: float) -> str:
    return f"@keyframes s{n}{{0%,{_part(part)}{{opacity:0}}{_part(part + 0.0001)},100%{{opacity:1}}}}"


def _part(part: float) -> str:
    return f"{100 * part:.3f}%"


def _moved(lines: int) -> str:
    return f"transform:translateY({-_LINE * lines}px)"


if __name__ == "__main__":
    ran = subprocess.run(
        [sys.executable, "-m", "triobot", "demo"], check=True, capture_output=True, text=True
    )
    PICTURE.write_text(draw(said_by_the_demo(ran.stdout)), encoding="utf-8")
    print(f"wrote {PICTURE.name}: {PICTURE.stat().st_size:,} bytes")
