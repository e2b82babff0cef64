"""The flow of an event: from the platform's request to the bot's, and what is on disk by when.

Which package comes when is compared with the way that was measured: `docs/architecture.md` has it, and
`python -m tests.bars --write` measures it anew.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, Literal, NamedTuple, TypeAlias

from .svg import Drawing, Tone

_PAGE: Final = Path(__file__).parents[3] / "docs" / "architecture.md"
_WAY: Final = re.compile(r"(?s)<!-- way: start -->\n```text\n[^\n]*\n(.*?)```")
# It looks at each step of every task, so it is entered before the first package.
_BESIDE: Final = "conversations revival/crash_counts\n"

_STEP, _TOP, _HIGH = 70, 62, 46
_PLATFORM, _BOT, _DISK = 14, 112, 316
_WIDE: Final = 176
_EDGE: Final = 70

Side: TypeAlias = Literal["from platform", "to platform", "to disk", ""]


class Step(NamedTuple):
    """What a package does with the event.

    Attributes:
        side: what passes between it and the platform or the disk, if anything.
        word: what that is.
    """

    package: str
    does: str
    side: Side = ""
    word: str = ""
    tone: Tone = ""


_STEPS: Final = (
    Step("webhook", "reads and checks it", "from platform", "event"),
    Step("conversations", "finds who takes it"),
    Step("engine", "makes its first record"),
    Step("store", "one transaction, fsync", "to disk", "event", "good"),
    Step("webhook", "acknowledges it", "to platform", "200", "good"),
    Step("engine", "runs your coroutine"),
    Step("outbox", "keeps the chat's order"),
    Step("client", "sends its question", "to platform", "message"),
    Step("engine", "waits for the answer", "to disk", "records"),
)


def measured() -> list[str]:
    """Return the packages in the order in which an event that starts a conversation enters them."""
    found = _WAY.search(_PAGE.read_text(encoding="utf-8"))
    if found is None:
        raise ValueError(f"{_PAGE.name} has no way called start")
    lines = found[1].removeprefix(_BESIDE).splitlines()
    return [*dict.fromkeys(line.split()[0] for line in lines)]


def draw() -> str:
    """Return the drawing."""
    shown = [*dict.fromkeys(step.package for step in _STEPS)]
    way = [package for package in measured() if package in shown]
    if way != shown:
        raise ValueError(f"an event enters {way}, in this order, and the drawing shows {shown}")
    high = _TOP + _STEP * len(_STEPS)
    drawing = Drawing(
        "The flow of an event",
        "; ".join(f"{step.package} {step.does}" for step in _STEPS)
        + ". The platform gets its 200 only when the event is on disk.",
        high + 4,
    )
    for x, title in ((_PLATFORM, "platform"), (_BOT, "the bot"), (_DISK, "disk")):
        wide = _WIDE if x == _BOT else _EDGE
        drawing.text((x + wide / 2, 28), title, anchor="middle", kind="name")
        if x != _BOT:
            drawing.box((x, 40), (wide, high - 52))
    for n, step in enumerate(_STEPS):
        y = _TOP + _STEP * n
        middle = y + _HIGH / 2
        if n:
            drawing.arrow((_BOT + _WIDE / 2, y - _STEP + _HIGH), (_BOT + _WIDE / 2, y))
        drawing.box((_BOT, y), (_WIDE, _HIGH), tone=step.tone)
        drawing.text((_BOT + _WIDE / 2, y + 19), step.package, anchor="middle", kind="name")
        drawing.text((_BOT + _WIDE / 2, y + 36), step.does, anchor="middle", tone="soft")
        match step.side:
            case "from platform":
                drawing.arrow((_PLATFORM + _EDGE, middle), (_BOT, middle))
                drawing.text((_PLATFORM + _EDGE / 2, middle + 4), step.word, anchor="middle")
            case "to platform":
                drawing.arrow((_BOT, middle), (_PLATFORM + _EDGE, middle), tone=step.tone)
                drawing.text((_PLATFORM + _EDGE / 2, middle + 4), step.word, anchor="middle")
            case "to disk":
                drawing.arrow((_BOT + _WIDE, middle), (_DISK, middle), tone=step.tone)
                drawing.text((_DISK + _EDGE / 2, middle + 4), step.word, anchor="middle")
            case "":
                pass
    return drawing.svg()
