"""A damaged value in the store ends only its own conversation, or the start is refused."""

from __future__ import annotations

import json
import random
import shutil
import sqlite3
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import closing
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
import trio
import trio.testing

from tests.bot.rig import Chats, make_bot, say
from tests.loopback import PATIENCE
from tests.samples import sample
from triobot import Bot, Chat, ChatId, Key, Paid, Room, Tick
from triobot.base.authors import leaves
from triobot.errors import ConfigError, StoreError
from triobot.filters import command, paid, text
from triobot.store.schema import MIGRATIONS, run_migration

NAME: Final = Key("name", str)
# The first two values are no texts: invalid UTF-8, and a value of another type.
GARBAGE: Final = [
    "CAST(x'22ff22' AS TEXT)",
    "x'ff'",
    *sample(["'{bad'", "''", "'[]'", "'null'", """'{"a": 1}'""", "'7'", """'[1, "x"]'"""], every=4),
]
OF_ONE: Final = ("conversations", "journal", "effects", "data", "inbox")
"""Tables each row of which is one conversation's, or a chat's."""
ROWS: Final = (
    """INSERT INTO effects VALUES (1, '1', 5, '["Q",5,1,"step",""]', 6, '["D",5,1,"step","",1,0,0]')""",
    "INSERT INTO alarms VALUES ('crash_loop', 'start', 'words', 1, 1, 1, NULL, NULL)",
    "INSERT INTO accepted VALUES ('f', 'was', 'now', 0)",
    "INSERT INTO raw VALUES (1, 1, 'words', 'text/plain', x'00')",
    """INSERT INTO inbox SELECT 99, 3, 1, 'text/plain', x'00', replace(records, ',1]', ',1,"aside",1,null]')
    FROM journal WHERE conversation = 1 AND n = 0""",
    "INSERT INTO settings VALUES ('alarms_told:url', '[]'), ('former_webhook_secret', '')"
    " ON CONFLICT DO NOTHING",
)
"""What the bot below leaves out."""


def town(chats: Chats, store: Path) -> Bot:
    """A bot of which a store has something in every table."""
    bot = make_bot(chats, store=f"sqlite:{store}", grace=0.1)

    @bot.conversation(command("buy"), name="buy")
    async def buy(chat: Chat) -> None:
        await chat.charge(200_000, "Pizza", item="pizza")

    @bot.every(timedelta(hours=1), name="count")
    async def count(job: Room[Tick]) -> None: ...

    @bot.aside(paid(str), name="give")
    async def give(chat: Chat[Paid[str]]) -> None: ...

    @bot.conversation(text(), name="talk")
    async def talk(chat: Chat) -> None:
        chat.data[NAME] = await chat.ask("Name?")
        with chat.move_on_after(7 * 24 * 3600):  # the store below is used for hours
            await chat.send(f"To {await chat.ask('Street?')}, {chat.data[NAME]}.")

    return bot


async def readers() -> AsyncGenerator[ChatId]:
    yield ChatId(11)


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a store as a kill leaves it."""
    lives, folder = tmp_path_factory.mktemp("lives"), tmp_path_factory.mktemp("killed")

    async def main() -> None:
        chats = Chats()
        bot = town(chats, lives / "bot.db")
        async with bot.running() as intake:
            for chat in (7, 8):
                await say(intake, chat, "hi")
                await chats.wait_for(chat, "Name?")
                await say(intake, chat, "Sara")
                await chats.wait_for(chat, "Name?", "Street?")
            await bot.broadcast("news").start("News!", readers())
            await say(intake, 5, "/buy")
            await chats.wait_for(5, "Pizza")
            await trio.testing.wait_all_tasks_blocked(0.05)
            for one in lives.glob("bot.db*"):
                if one.is_file():
                    shutil.copy(one, folder)

    trio.run(main)
    with closing(sqlite3.connect(folder / "bot.db", isolation_level=None)) as db:
        for row in ROWS:
            db.execute(row)
    return folder


def damaged(killed: Path, folder: Path, statement: str, *values: object) -> Path:
    """Return another copy of the store, in which a statement has changed rows."""
    shutil.copytree(killed, folder)
    with closing(sqlite3.connect(folder / "bot.db", isolation_level=None)) as db:
        assert db.execute(statement, values).rowcount
        db.execute("UPDATE conversations SET build = build + ?", (random.Random(str(folder)).choice([0, 1]),))
    return folder / "bot.db"


def starts(store: Path) -> str:
    """Start the bot, and let chats answer: all hear what is right, or 7 of its end; or a refusal's words."""
    chats = Chats()

    async def main() -> None:
        async with town(chats, store).running() as intake:
            for chat in (7, 8, 2):
                await say(intake, chat, "Street 5")
            await chats.wait_for(2, "Name?")
            await chats.wait_for(8, "To Street 5, Sara.")
            with trio.fail_after(PATIENCE):
                while not chats.texts[7]:
                    await trio.sleep(0.01)

    try:
        trio.run(main)
    except Exception as error:
        refusal, *others = leaves(error)
        assert isinstance(refusal, StoreError | ConfigError), error
        assert not others
        return str(refusal)
    return ""


def texts_of_the_schema() -> list[tuple[str, str]]:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
        for migration in MIGRATIONS:
            run_migration(db, migration, MIGRATIONS)
        return db.execute(
            "SELECT m.name, c.name FROM sqlite_master m, pragma_table_info(m.name) c"
            " WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite_%' AND c.type = 'TEXT'"
        ).fetchall()


@pytest.mark.slow
@pytest.mark.parametrize("garbage", GARBAGE)
@pytest.mark.parametrize(("table", "column"), texts_of_the_schema())
def test_a_text_that_says_nothing_ends_nobody_else(
    killed: Path, tmp_path: Path, table: str, column: str, garbage: str
) -> None:
    """Each text of the schema; of chat 7 alone where a row is one chat's."""
    with closing(sqlite3.connect(killed / "bot.db")) as db:
        columns = {name: key for _, name, _, _, _, key in db.execute(f"PRAGMA table_info({table})")}
        key = next((name for name, place in columns.items() if place), "rowid")
        whose = {"conversation": "WHERE conversation = 1", "chat_id": "WHERE chat_id = 7"}
        of_one = next((where for name, where in whose.items() if name in columns), "")
        rows = db.execute(f"SELECT min({key}) FROM {table} {of_one}").fetchall()
        if rows == [(None,)] or table in ("meta", "settings"):
            rows = db.execute(f"SELECT {key} FROM {table}").fetchall()
    assert rows, f"add a row of {table} to ROWS"
    for n, (row,) in enumerate(rows):
        change = f"UPDATE OR IGNORE {table} SET {column} = {garbage} WHERE {key} = ?"
        refusal = starts(damaged(killed, tmp_path / str(n), change, row))
        told = str(tmp_path) in refusal and "is damaged" in refusal and table not in OF_ONE
        assert not refusal or told or table == "meta", (row, refusal)


@pytest.mark.slow
def test_a_number_that_no_conversation_has_is_told_with_its_file(killed: Path, tmp_path: Path) -> None:
    refusal = starts(damaged(killed, tmp_path / "bot", "UPDATE conversations SET id = -5 WHERE id = 1"))
    assert str(tmp_path) in refusal
    assert "is damaged" in refusal


def nodes(value: Any, put: Callable[[object], object] = id) -> Iterator[Callable[[object], object]]:
    """Yield what puts something in the place of each part of a value."""
    places = range(len(value)) if isinstance(value, list) else value if isinstance(value, dict) else ()
    for place in places:
        yield partial(value.__setitem__, place)
        yield lambda _, place=place: value.pop(place)
        yield from nodes(value[place])


@pytest.mark.slow
@pytest.mark.parametrize("seed", sample(range(330)))
def test_a_record_of_which_a_part_is_another_ends_nobody_else(
    killed: Path, tmp_path: Path, seed: int
) -> None:
    rng = random.Random(seed)
    with closing(sqlite3.connect(killed / "bot.db")) as db:
        appended = db.execute("SELECT n FROM journal WHERE conversation = 1").fetchall()
        places = [("journal", "records", f"conversation = 1 AND n = {n}") for (n,) in appended]
        places += [("effects", "intent", "conversation = 1"), ("effects", "result", "conversation = 1")]
        places += [("inbox", "begun", "seq = 99"), ("conversations", "rests", "id = 1")]
        table, column, where = rng.choice(places)
        (stored,) = db.execute(f"SELECT {column} FROM {table} WHERE {where}").fetchone()
    lines = stored.split("\n")
    n = rng.randrange(len(lines))
    record = json.loads(lines[n])
    rng.choice(list(nodes(record)))(
        rng.choice([None, "x", 7, -1, [], {}, [1], {"a": 1}, 2**70, "", 1.5, True])
    )
    lines[n] = json.dumps(record, separators=(",", ":"))
    change = f"UPDATE {table} SET {column} = ? WHERE {where}"
    assert not starts(damaged(killed, tmp_path / "bot", change, "\n".join(lines)))
