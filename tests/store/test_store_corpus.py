"""Stores of every earlier schema under today's code, and today's under the code before its formats."""

from __future__ import annotations

import datetime as dt
import json
import sqlite3
import zoneinfo
from decimal import Decimal
from enum import Enum
from pathlib import Path
from uuid import UUID

import attrs
import httpx
import pytest
import trio

from tests.bot.rig import FORM, Chats
from tests.loopback import PATIENCE, text_event
from triobot import Bot, Chat
from triobot.conversations.codec import CODEC
from triobot.engine.records import FORMAT
from triobot.errors import StoreVersionError
from triobot.runtime.work import Intake
from triobot.seams.values import encode_value, recorded
from triobot.store import open_sqlite
from triobot.store.payment_rows import TABLES
from triobot.store.schema import FORMATS, MIGRATIONS
from triobot.wire.events import Message, Press, Sender
from triobot.wire.ids import ChatId, MessageId, SenderId
from triobot.wire.results import Sent

CORPUS = Path(__file__).parent / "corpus"
SCHEMAS = range(1, len(MIGRATIONS))
UNREADABLE = (5, 6, 7)
"""Their journals are of another engine, and were never read by a later one."""
HOUR = 3_600_000


class LaterOn:
    """The time of day, an hour after the corpus was made."""

    def __init__(self, began: int) -> None:
        self._at = began + HOUR - int(trio.current_time() * 1000)

    def now(self) -> int:
        return self._at + int(trio.current_time() * 1000)


def put_there(path: Path, schema: int) -> int:
    """Make the store of a schema; return when it was left."""
    connection = sqlite3.connect(path)
    connection.executescript((CORPUS / f"schema-{schema}.sql").read_text())
    (left,) = connection.execute(
        "SELECT value FROM meta WHERE name IN ('clean', 'opened_at') LIMIT 1"
    ).fetchone()
    connection.close()
    return int(left)


def contents(path: Path) -> list[str]:
    connection = sqlite3.connect(path)
    lines = list(connection.iterdump())
    connection.close()
    return lines


def make_bot(chats: Chats, path: Path, left: int) -> Bot:
    bot = Bot(
        "corpus-token-0123456789",
        base_url="http://127.0.0.1:9",
        store=f"sqlite:{path}",
        transport=httpx.MockTransport(chats.take),
        clock=LaterOn(left),
    )

    @bot.conversation(name="make.order")
    async def order(chat: Chat) -> None:
        name = await chat.ask("Your name?")
        count = await chat.ask("How many?", int)
        await chat.send(f"{count} for {name}.")

    return bot


async def say(intake: Intake, text: str) -> None:
    await intake.inbox.accept(FORM, text_event(7, text))


@pytest.mark.parametrize("schema", SCHEMAS)
async def test_a_store_of_an_earlier_schema_goes_on(schema: int, tmp_path: Path) -> None:
    path, chats = tmp_path / "bot.db", Chats()
    left = put_there(path, schema)
    if schema in UNREADABLE:
        before = contents(path)
        with pytest.raises(StoreVersionError, match="run that triobot until they have ended"):
            async with make_bot(chats, path, left).running():
                pytest.fail("it was opened")
        assert contents(path) == before
        assert not list(tmp_path.glob("*.backup"))
        return

    with trio.fail_after(PATIENCE):
        async with make_bot(chats, path, left).running() as intake:
            if schema < min(UNREADABLE):
                # Nothing of a conversation was kept then; in the first an event waits.
                if schema > 1:
                    await say(intake, "hi")
                await chats.wait_for(7, "Your name?")
                await say(intake, "Sara")
                await chats.wait_for(7, "Your name?", "How many?")
                chats.texts.clear()
            await say(intake, "3")
            await chats.wait_for(7, "3 for Sara.")
    assert (tmp_path / f"bot.db.schema-{schema}.backup").is_file()


async def test_a_store_of_today_is_refused_by_the_code_before_its_formats(tmp_path: Path) -> None:
    """With one line, and untouched: its conversations would be parked one by one otherwise."""
    path, chats = tmp_path / "bot.db", Chats()
    with trio.fail_after(PATIENCE):
        async with make_bot(chats, path, 1_800_000_000_000).running() as intake:
            await say(intake, "hi")
            await chats.wait_for(7, "Your name?")
    before = contents(path)
    former = MIGRATIONS[: FORMATS - 1]

    with pytest.raises(StoreVersionError) as refused:
        async with open_sqlite(path, stamp=None, clock=LaterOn(0), migrations=former):
            pytest.fail("it was opened")

    assert str(refused.value) == (
        f"the store has schema {MIGRATIONS[-1].number}, and this triobot knows {FORMATS - 1};"
        f" it can be opened by triobot {MIGRATIONS[-1].release} and later"
    )
    assert contents(path) == before


def test_whoever_can_not_read_the_formats_can_not_open_the_store() -> None:
    for migration in MIGRATIONS:
        assert migration.number < FORMATS or migration.min_reader >= FORMATS


async def test_only_the_newest_copies_of_migrations_stay(tmp_path: Path) -> None:
    """What only looks like one stays as well."""
    path = tmp_path / "bot.db"
    left = put_there(path, 10)
    for number in (2, 3, 8, 9):
        (tmp_path / f"bot.db.schema-{number}.backup").write_bytes(b"SQLite format 3\0")
    (tmp_path / "bot.db.schema-4.backup").write_bytes(b"notes of a person")
    (tmp_path / "other.db.schema-1.backup").touch()

    async with make_bot(Chats(), path, left).running():
        pass

    assert sorted(one.name for one in tmp_path.glob("*.backup")) == [
        *(f"bot.db.schema-{number}.backup" for number in (10, 4, 8, 9)),
        "other.db.schema-1.backup",
    ]


# --- how what outlives a process is written


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
        "formats": FORMATS,
        "values": [encode_value(value) for value in VALUES],
        "journal": FORMAT,
        "said": CODEC.node_of((Message(ChatId(7), "hi", sara), 41, 1_800_000_000_000, ("hi",))),
        "heard": CODEC.node_of((heard := Message(ChatId(7), "hi", sara), 41, 1_800_000_000_000, (heard,))),
        "sent": CODEC.node_of(Sent(ChatId(7), MessageId(41))),
        "pressed": CODEC.node_of(Press(ChatId(7), "q.sx", MessageId(41), "c1", sara)),
        "ledger": [" ".join(statement.split()) for statement in TABLES],
    }


def test_what_is_recorded_is_written_as_it_was() -> None:
    """If not, an older triobot can't read what this one writes: see `FORMATS`, and write the file anew."""
    assert json.loads(json.dumps(written())) == json.loads((CORPUS / "formats.json").read_text())
