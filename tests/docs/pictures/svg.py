"""What the drawings are drawn with: boxes, words and arrows, as narrow as a phone, in light and in dark."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, TypeAlias, final
from xml.sax.saxutils import escape

import attrs

WIDTH: Final = 400
"""Of every drawing: on a phone its letters are a little smaller than the page's."""

Tone: TypeAlias = Literal["", "soft", "good", "bad"]
Anchor: TypeAlias = Literal["start", "middle", "end"]
Point: TypeAlias = tuple[float, float]

# A drawing has its own ground, so it can be read on whatever page it stands.
_STYLE: Final = (
    "svg{--ground:#fff;--fill:#f1f5f9;--line:#64748b;--ink:#0f172a;--soft:#475569;--good:#0f766e;--bad:#b91c1c}"
    "@media(prefers-color-scheme:dark){svg{--ground:#0f172a;--fill:#1e293b;--line:#94a3b8;--ink:#e2e8f0;"
    "--soft:#a8b5c7;--good:#5eead4;--bad:#fca5a5}}"
    "text{font:13px system-ui,sans-serif;fill:var(--ink)}"
    ".code{font:12px ui-monospace,Menlo,Consolas,monospace;white-space:pre}"
    ".name{font-weight:600}.soft{fill:var(--soft)}.good{fill:var(--good)}.bad{fill:var(--bad)}"
    ".ground{fill:var(--ground)}"
    "rect.box{fill:var(--fill);stroke:var(--line)}"
    "rect.frame{fill:none;stroke:var(--line);stroke-dasharray:4 3}"
    "rect.box.good{stroke:var(--good)}rect.box.bad{stroke:var(--bad)}"
    "path{fill:none;stroke:var(--line);stroke-width:1.4}path.good{stroke:var(--good)}path.bad{stroke:var(--bad)}"
    "path.soft{stroke-dasharray:3 3}"
    "path.head{fill:var(--line);stroke:none}path.head.good{fill:var(--good)}path.head.bad{fill:var(--bad)}"
)


@final
@attrs.define(eq=False)
class Drawing:
    """A drawing that grows: parts are laid over one another in the order in which they come.

    Args:
        title: what it shows, in a few words.
        words: what it says, for who can't see it.
    """

    title: str
    words: str
    height: float = 0.0
    _parts: list[str] = attrs.field(init=False, factory=list[str])

    def text(
        self, at: Point, words: str, *, tone: Tone = "", anchor: Anchor = "start", kind: str = ""
    ) -> None:
        """Write words; `at` is where their line begins, stands in the middle, or ends."""
        side = "" if anchor == "start" else f' text-anchor="{anchor}"'
        self._parts.append(
            f'<text x="{at[0]:g}" y="{at[1]:g}"{_classes(kind, tone)}{side}>{escape(words)}</text>'
        )

    def lines(self, at: Point, words: Sequence[str], *, tone: Tone = "", anchor: Anchor = "start") -> None:
        """Write several lines, one below the other."""
        for n, line in enumerate(words):
            self.text((at[0], at[1] + 15 * n), line, tone=tone, anchor=anchor)

    def box(self, at: Point, size: Point, words: str = "", *, tone: Tone = "", kind: str = "name") -> None:
        """Draw a box, with words in its middle."""
        (x, y), (wide, high) = at, size
        self._parts.append(_rect(at, size, _classes("box", tone)))
        if words:
            self.text((x + wide / 2, y + high / 2 + 4.5), words, anchor="middle", kind=kind)

    def frame(self, at: Point, size: Point) -> None:
        """Draw a dashed frame around several boxes."""
        self._parts.append(_rect(at, size, _classes("frame")))

    def arrow(self, *points: Point, tone: Tone = "", head: bool = True) -> None:
        """Draw a line through these points, horizontal or vertical at its end, with a head there."""
        path = "L".join(f"{x:g} {y:g}" for x, y in points)
        self._parts.append(f'<path d="M{path}"{_classes(tone)}/>')
        if head:
            (x, y), (before_x, before_y) = points[-1], points[-2]
            if x != before_x:
                back = -8 if x > before_x else 8
                tip = f"M{x:g} {y:g}L{x + back:g} {y - 4:g}V{y + 4:g}z"
            else:
                back = -8 if y > before_y else 8
                tip = f"M{x:g} {y:g}L{x - 4:g} {y + back:g}H{x + 4:g}z"
            self._parts.append(f'<path d="{tip}"{_classes("head", tone)}/>')

    def svg(self) -> str:
        """Return the drawing as text."""
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {self.height:g}"'
                f' width="{WIDTH}" height="{self.height:g}" role="img">',
                f"<title>{escape(self.title)}</title>",
                f"<desc>{escape(self.words)}</desc>",
                f"<style>{_STYLE}</style>",
                f'<rect class="ground" width="{WIDTH}" height="{self.height:g}" rx="8"/>',
                *self._parts,
                "</svg>\n",
            ]
        )


def _classes(*names: str) -> str:
    given = " ".join(filter(None, names))
    return f' class="{given}"' if given else ""


def _rect(at: Point, size: Point, classes: str) -> str:
    return f'<rect x="{at[0]:g}" y="{at[1]:g}" width="{size[0]:g}" height="{size[1]:g}" rx="5"{classes}/>'
