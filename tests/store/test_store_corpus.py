"""How what outlives a process is written."""

from __future__ import annotations

import datetime as dt
import json
import zoneinfo
from decimal import Decimal
from enum import Enum
from pathlib import Path
from uuid import UUID

import attrs

from triobot.conversations.codec import CODEC
from triobot.engine.records import FORMAT
from triobot.seams.values import encode_value, recorded
from triobot.store.payment_rows import TABLES
from triobot.wire.events import Message, Press, Sender
from triobot.wire.ids import ChatId, MessageId, SenderId
from triobot.wire.results import Sent

CORPUS = Path(__file__).parent / "corpus"


@recorded(name="written.Size")
class Size(Enum):
    SMALL = 1


@recorded(name="written.Order")
@attrs.frozen
class Order:
    name: str
    size: Size = Size.SMALL
    notes: tuple[str, ...] = ()


VALUES = [
    *(None, True, 3, 2**60, 1.5, "a", "é", b"x", (1, 2), [1], {"a": 1}, {1}, frozenset({2}), Decimal("1.5")),
    *(dt.date(2026, 1, 2), dt.time(3, 4), dt.timedelta(1, 2, 3), UUID(int=7), Path("a/b"), Size.SMALL),
    dt.datetime(2026, 1, 2, 3, 4, tzinfo=dt.UTC),
    dt.datetime(2026, 1, 2, 3, 4, tzinfo=zoneinfo.ZoneInfo("Asia/Tehran")),
    Order("Sara", notes=("x",)),
]


def written() -> dict[str, object]:
    """Everything that is recorded, once."""
    sara = Sender(SenderId(1), "Sara", "sara")
    return {
        "values": [encode_value(value) for value in VALUES],
        "journal": FORMAT,
        "said": CODEC.node_of((Message(ChatId(7), "hi", sara), 41, 1_800_000_000_000, ("hi",))),
        "heard": CODEC.node_of((heard := Message(ChatId(7), "hi", sara), 41, 1_800_000_000_000, (heard,))),
        "sent": CODEC.node_of(Sent(ChatId(7), MessageId(41))),
        "pressed": CODEC.node_of(Press(ChatId(7), "q.sx", MessageId(41), "c1", sara)),
        "ledger": [" ".join(statement.split()) for statement in TABLES],
    }


def test_what_is_recorded_is_written_as_it_was() -> None:
    """If not, an older triobot can't read what this one writes: see `MIGRATIONS`, and write the file anew."""
    assert json.loads(json.dumps(written())) == json.loads((CORPUS / "formats.json").read_text())
