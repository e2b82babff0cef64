"""The order of a chat: what the sender's lanes let go when, of three chats of which one is never answered.

`Lanes` decides, as it does for the sender; here is only how long the platform takes for its answers.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import Final, final

import attrs

from triobot.outbox.lanes import Lanes, Place
from triobot.seams.outbox import Urgency

from .svg import Drawing

# Seconds that the platform takes for each text of a chat; None: it never answers.
_ANSWERS: Final[dict[str, tuple[float | None, ...]]] = {
    "Ali": (0.3, 0.7, 0.4, 0.5),
    "Sara": (None, 0.3, 0.3),
    "Nima": (0.6, 0.3, 0.5, 0.3),
}
_UNTIL: Final = 2.2

_TOP, _SECOND, _COLUMN, _BAR = 74, 150, 128, 54
_LEFT: Final = 18


@final
@attrs.define(eq=False)
class Text(Place):
    """A text on its way: its chat is the key of its lane.

    Attributes:
        number: in its chat, from 1.
        begun: when it left; None while it waits.
        answered: when the platform had answered it; None: not yet.
    """

    number: int
    begun: float | None = None
    answered: float | None = None


def run() -> list[Text]:
    """Return what became of all texts, which were written at the same moment."""
    lanes: Lanes[Text] = Lanes()
    texts = [
        Text(name, Urgency.REPLY, number + 1) for name in _ANSWERS for number in range(len(_ANSWERS[name]))
    ]
    for text in texts:
        lanes.queue(text, 0.0)
    answers: list[tuple[float, int, Text]] = []
    now = 0.0
    while True:
        while text := lanes.start(now):
            text.begun = now
            takes = _ANSWERS[str(text.key)][text.number - 1]
            if takes is not None:
                heapq.heappush(answers, (now + takes, texts.index(text), text))
        if not answers:
            return texts
        now, _, text = heapq.heappop(answers)
        text.answered = now
        lanes.answered(text, now)
        lanes.finish(text, now)


def _kept(texts: list[Text]) -> Iterator[str]:
    for name in _ANSWERS:
        begun = [text.number for text in texts if text.key == name and text.begun is not None]
        yield f"{name}: {', '.join(map(str, begun))}"


def draw() -> str:
    """Return the drawing."""
    texts = run()
    high = _TOP + _SECOND * _UNTIL
    drawing = Drawing(
        "The order of a chat",
        "Three chats have several texts to send, from above to below in time. In each chat the next text "
        "leaves when the platform has answered the one before. The platform never answers the first text of "
        "Sara's chat: her others wait, and the texts of Ali and Nima go on. "
        f"What left by the end: {'; '.join(_kept(texts))}.",
        high + 50,
    )
    for column, name in enumerate(_ANSWERS):
        x = _LEFT + column * _COLUMN
        drawing.text((x + _BAR, 26), name, anchor="middle", kind="name")
        drawing.text((x + _BAR, 44), f"{len(_ANSWERS[name])} texts to send", tone="soft", anchor="middle")
        drawing.arrow((x + _BAR, 54), (x + _BAR, high + 14))
        waits = 0
        for text in (text for text in texts if text.key == name):
            if text.begun is None:
                drawing.box((x + 2 * _BAR - 22, _TOP + 34 * waits), (24, 26), str(text.number), kind="")
                waits += 1
            else:
                _bar(drawing, x, text)
        if waits:
            drawing.lines((x + 2 * _BAR - 20, _TOP + 34 * waits + 12), ["wait"], tone="soft")
    drawing.text(
        (_LEFT, high + 36), "time goes down; a bar is a text on its way to the platform", tone="soft"
    )
    return drawing.svg()


def _bar(drawing: Drawing, x: float, text: Text) -> None:
    assert text.begun is not None
    end = _UNTIL if text.answered is None else text.answered
    top, high = _TOP + _SECOND * text.begun, _SECOND * (end - text.begun)
    answered = text.answered is not None
    drawing.box(
        (x + 24, top + 1.5), (2 * _BAR - 48, high - 3), str(text.number), tone="good" if answered else "bad"
    )
    if not answered:
        drawing.lines((x + _BAR, top + high / 2 + 22), ["no", "answer"], tone="bad", anchor="middle")
