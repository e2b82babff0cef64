"""A payment's life: which fact moves it from state to state, read from the ledger's table.

Where a state stands is said here, and which states share an arrow. What moves is the table's: a move that no
arrow shows, and an arrow that the table has not, are errors.
"""

from __future__ import annotations

from typing import Final

import attrs

from triobot.payments.entry import STATES, State
from triobot.payments.facts import FactName
from triobot.payments.table import TABLE

from .svg import Drawing, Point, Tone

_SIZE: Final[Point] = (80, 28)
_MAIN, _BESIDE, _ENDS = 18, 180, 308

_PLACES: Final[dict[State, Point]] = {
    "prepared": (_MAIN, 34),
    "void": (_ENDS, 34),
    "sending": (_MAIN, 130),
    "refused": (_ENDS, 130),
    "open": (_MAIN, 226),
    "unsure": (_BESIDE, 226),
    "check": (_MAIN, 356),
    "closing": (_BESIDE, 356),
    "lapsed": (_ENDS, 356),
    "verifying": (_MAIN, 530),
    "mismatch": (_ENDS, 530),
    "verified": (_MAIN, 622),
    "delivered": (_MAIN, 714),
    "settled": (_MAIN, 806),
    "resolved": (_ENDS, 806),
}

# They move nearly everything, and seldom come: an operator, and a backup that was restored.
_SELDOM: Final = ("operator_", "restored", "invoice_adopted", "captured_before")

_SHOWN: Final[tuple[State, ...]] = ("sending", "open", "unsure")
_WATCHED: Final[tuple[State, ...]] = (*_SHOWN, "check", "closing")
_OVER: Final[tuple[State, ...]] = ("void", "refused", "lapsed")

_TONES: Final[dict[State, Tone]] = {
    "verified": "good",
    "delivered": "good",
    "settled": "good",
    "mismatch": "bad",
}


def _middle(state: State, *, x: float = 0.5, y: float = 0.5) -> Point:
    place = _PLACES[state]
    return place[0] + x * _SIZE[0], place[1] + y * _SIZE[1]


@attrs.frozen
class Arrow:
    """Where the moves from some states to one are drawn.

    Attributes:
        words: where its facts are written, one below the other.
        sign: what is written before them, where two arrows have their words side by side.
    """

    sources: tuple[State, ...]
    to: State
    path: tuple[Point, ...]
    words: Point
    sign: str = ""


def _down(source: State, to: State, x: float = 0.5) -> tuple[Point, ...]:
    return _middle(source, x=x, y=1), _middle(to, x=x, y=0)


def _up(source: State, to: State, x: float = 0.5) -> tuple[Point, ...]:
    return _middle(source, x=x, y=0), _middle(to, x=x, y=1)


def _right(source: State, to: State, y: float = 0.5) -> tuple[Point, ...]:
    return _middle(source, x=1, y=y), _middle(to, x=0, y=y)


def _left(source: State, to: State, y: float = 0.5) -> tuple[Point, ...]:
    return _middle(source, x=0, y=y), _middle(to, x=1, y=y)


_ARROWS: Final = (
    Arrow(("prepared",), "sending", _down("prepared", "sending", 0.3), (98, 88), "\u2193 "),
    Arrow(("sending",), "prepared", _up("sending", "prepared", 0.8), (98, 104), "\u2191 "),
    Arrow(("prepared",), "void", _right("prepared", "void"), (170, 42)),
    Arrow(("sending",), "refused", _right("sending", "refused", 0.3), (170, 133)),
    Arrow(("sending",), "open", _down("sending", "open", 0.3), (52, 194)),
    Arrow(
        ("sending",),
        "unsure",
        (_middle("sending", x=1, y=0.8), (_middle("unsure")[0], 152.4), _middle("unsure", y=0)),
        (110, 170),
    ),
    Arrow(("unsure",), "open", _left("unsure", "open"), (116, 235)),
    Arrow(_SHOWN, "check", ((44, 288), (44, 356)), (52, 306)),
    Arrow(_SHOWN, "closing", ((_middle("closing")[0], 288), _middle("closing", y=0)), (142, 305)),
    Arrow(("check",), "closing", _right("check", "closing", 0.3), (103, 359)),
    Arrow(("closing",), "check", _left("closing", "check", 0.7), (103, 392)),
    Arrow(("check", "closing"), "lapsed", ((264, 370), (_ENDS, 370)), (272, 412)),
    Arrow(_OVER, "check", ((368, 394), (368, 450), (96, 450), (96, 384)), (112, 444)),
    Arrow(_WATCHED, "verifying", ((220, 474), (220, 538.4), _middle("verifying", x=1, y=0.3)), (226, 500)),
    Arrow(("verifying",), "check", _up("verifying", "check"), (68, 500)),
    Arrow(("verifying",), "mismatch", _right("verifying", "mismatch", 0.75), (112, 568)),
    Arrow(("verifying",), "verified", _down("verifying", "verified", 0.3), (52, 588)),
    Arrow(("verified",), "delivered", _down("verified", "delivered", 0.3), (98, 678), "\u2193 "),
    Arrow(("delivered",), "verified", _up("delivered", "verified", 0.8), (98, 694), "\u2191 "),
    Arrow(("delivered",), "settled", _down("delivered", "settled", 0.3), (52, 774)),
)


def moves() -> dict[tuple[State, State], list[FactName]]:
    """Return which facts move a payment from one state to another, without those that seldom come."""
    found: dict[tuple[State, State], list[FactName]] = {}
    for row in TABLE:
        facts = [fact for fact in row.facts if not fact.startswith(_SELDOM)]
        for state in row.states:
            if facts and row.next is not None and row.next != state:
                found.setdefault((state, row.next), []).extend(facts)
    return found


def _facts_of(arrow: Arrow, left: dict[tuple[State, State], list[FactName]]) -> list[FactName]:
    """Take an arrow's facts out of the moves that are left; all its sources have the same."""
    found = [left.pop((source, arrow.to)) for source in arrow.sources]
    if any(facts != found[0] for facts in found):
        raise ValueError(f"{arrow.sources} share an arrow to {arrow.to}, and go there by different facts")
    return found[0]


def _closed_by_operator() -> list[State]:
    return [state for row in TABLE if row.facts == ("operator_resolved",) for state in row.states]


def draw() -> str:
    """Return the drawing."""
    left = moves()
    if missing := set(STATES) - set(_PLACES):
        raise ValueError(f"no place is said for the states {sorted(missing)}")
    drawing = Drawing(
        "A payment's life",
        "The states of a payment, and the facts that move it from one to another. The usual way is prepared, "
        "sending, open, check, verifying, verified, delivered, settled. The page about the ledger has every "
        "move as a table.",
        852,
    )
    drawing.frame((6, 112), (264, 362))
    drawing.frame((12, 118), (252, 170))
    drawing.frame((12, 346), (252, 66))
    drawing.frame((298, 24), (98, 370))
    for arrow in _ARROWS:
        facts = _facts_of(arrow, left)
        drawing.arrow(*arrow.path)
        told = [", ".join(facts)] if arrow.to == "mismatch" or arrow.sources == _OVER else facts
        drawing.lines(arrow.words, [arrow.sign + words for words in told], tone="soft")
    if left:
        raise ValueError(f"no arrow shows the moves {sorted(left)}")
    for state, place in _PLACES.items():
        drawing.box(place, _SIZE, state, tone=_TONES.get(state, ""))
    drawing.text((20, 278), "on the screen, or on its way", tone="soft")
    *first, one, another = _closed_by_operator()
    drawing.lines(
        (388, 762),
        ["an operator closes what is", f"{', '.join(first)},", f"{one} or {another}"],
        tone="soft",
        anchor="end",
    )
    return drawing.svg()
