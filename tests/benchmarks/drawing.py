"""A plot of bars, as SVG: the middle of several rounds, and a line from the least to the most of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from xml.sax.saxutils import escape

import attrs

from .figures import Spread

_WIDTH: Final = 760
_LABELS: Final = 190
_BAR: Final = 16
_STEP: Final = 26
_OWN: Final = "#2563eb"
_OTHER: Final = "#94a3b8"


@attrs.frozen
class Bar:
    """One bar; `own` ones are coloured."""

    label: str
    spread: Spread
    own: bool


@attrs.frozen
class Panel:
    """Bars under a title, on a scale of their own."""

    title: str
    bars: Sequence[Bar]


def draw(title: str, unit: str, panels: Sequence[Panel]) -> str:
    """The plot as text.

    Args:
        unit: of the numbers, behind the title.
    """
    parts: list[str] = [_text(16, 26, f"{title}, {unit}", size=15, bold=True)]
    y = 44
    for panel in panels:
        parts.append(_text(16, y + 14, panel.title, size=13, bold=True))
        y += 26
        # The bars end where the longest whisker and a number behind it have room.
        scale = (_WIDTH - _LABELS - 90) / max(bar.spread.most for bar in panel.bars)
        for bar in panel.bars:
            parts += _bar(bar, y, scale)
            y += _STEP
        y += 14
    height = y + 4
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}"'
            f' height="{height}" role="img" font-family="system-ui, sans-serif">',
            f"<title>{escape(title)}, {escape(unit)}</title>",
            f'<rect width="{_WIDTH}" height="{height}" rx="8" fill="#ffffff"/>',
            *parts,
            "</svg>\n",
        ]
    )


def _bar(bar: Bar, y: int, scale: float) -> list[str]:
    width, middle = bar.spread.median * scale, y + _BAR / 2
    least, most = (_LABELS + value * scale for value in (bar.spread.least, bar.spread.most))
    return [
        _text(_LABELS - 8, y + 12, bar.label, end=True),
        f'<rect x="{_LABELS}" y="{y}" width="{width:.1f}" height="{_BAR}" rx="2"'
        f' fill="{_OWN if bar.own else _OTHER}"/>',
        f'<path d="M{least:.1f} {middle}H{most:.1f}M{least:.1f} {middle - 4}v8M{most:.1f} {middle - 4}v8"'
        ' stroke="#0f172a" fill="none"/>',
        _text(max(_LABELS + width, most) + 8, y + 12, f"{bar.spread.median:,.0f}"),
    ]


def _text(x: float, y: float, said: str, *, size: int = 12, bold: bool = False, end: bool = False) -> str:
    weight, anchor = ' font-weight="600"' if bold else "", ' text-anchor="end"' if end else ""
    return (
        f'<text x="{x:.1f}" y="{y}" font-size="{size}" fill="#0f172a"{weight}{anchor}>{escape(said)}</text>'
    )
