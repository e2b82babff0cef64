"""Plays scenes on the emulated platform, and records all inputs and outputs of the bot.

``python -m tests.journals.record`` adds the scenes that this version's corpus lacks, and leaves the others.
If the store's tables have changed, the new scenes are in a further file. ``python -m tests.journals.record
NAME...`` records these scenes again, and so replaces their journals.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import json
import random
import sqlite3
import sys
import tempfile
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import wraps
from pathlib import Path
from typing import Any, Final, cast
from unittest.mock import patch
from urllib.parse import parse_qsl

import attrs
import httpx
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

import triobot
import triobot.widgets
from triobot import Broadcast, Buttons, Chat, ChatNursery, ChatRef, Live, Room, RoomRef, Scope, engine
from triobot.base.alarm_kinds import Alarm
from triobot.conversations.blocks import FailScope
from triobot.conversations.chat_data import ChatData
from triobot.emulator.exchange import Exchange, ShiftedClock
from triobot.emulator.person import App, InsideControl, Person
from triobot.emulator.pusher import PushSettings
from triobot.emulator.server import make_app, make_exchange
from triobot.emulator.views import view_user
from triobot.store.memory import MemoryRows
from triobot.testing.process import InsideTransport
from triobot.testing.virtual import VirtualWallClock, virtual_time
from triobot.wire.ids import ChatId, SenderId
from triobot.wire.platform_side import Body

from . import corpus, operations, stage
from .corpus import Answered, Asked, At, Entry, JournalRow, Posted, Release, Rows, Stored, Take
from .operations import Act, Fill, Join, Leave, Other, Pay, Press, Scene, TopUp, Wait, refused

BETWEEN = 10
"""Seconds between two acts: everything has come to rest."""


_DRAWN = ("run", "log_key")
"""Facts of a store that are other ones each time, and that a store does without."""


class Film:
    """Holds what has happened so far, in order."""

    def __init__(self, sql: sqlite3.Connection) -> None:
        self.entries: list[Entry] = []
        self._sql = sql
        self._began = trio.current_time()
        self._rows: Rows = corpus.rows_of(sql)
        self._events = 0
        self._bodies: dict[bytes, int] = {}
        sql.execute("CREATE TEMP TABLE said (conversation, n, records)")
        sql.execute(
            "CREATE TEMP TRIGGER saying AFTER INSERT ON journal BEGIN"
            " INSERT INTO said VALUES (NEW.conversation, NEW.n, NEW.records); END"
        )

    def add(self, entry: Entry) -> None:
        now = round((trio.current_time() - self._began) * 1000)
        if now and now != max((one.time for one in self.entries if isinstance(one, At)), default=0):
            self.entries.append(At(now))
        self.entries.append(entry)

    def post(self, body: Body) -> Posted:
        self._events += 1
        number = self._bodies[body.data] = self._events
        posted = Posted(number, body.content_type, body.data.decode())
        self.add(posted)
        return posted

    def look(self) -> None:
        """Look at what a transaction has done."""
        now = corpus.rows_of(self._sql)
        changes = [*corpus.changes_between(self._sql, self._rows, now, self._bodies)]
        self._rows = now
        said = self._sql.execute("SELECT * FROM said ORDER BY rowid").fetchall()
        self._sql.execute("DELETE FROM said")
        kept = {
            (change.values["conversation"], change.values["n"])
            for change in changes
            if change.table == "journal" and change.key is None and change.values is not None
        }
        journals = [
            JournalRow(number, place, _without_sites(lines), stays=(number, place) in kept)
            for number, place, lines in said
        ]
        changes = [one for one in changes if one.table != "journal" or one.key is not None]
        if changes or journals:
            self.add(Stored(changes, journals))


def _without_sites(lines: str) -> list[str]:
    return [corpus.dump(corpus.without_sites(json.loads(line))) for line in lines.split("\n")]


class FilmedRows:
    """The rows of a store, of which each transaction is filmed."""

    def __init__(self, rows: MemoryRows) -> None:
        self._rows = rows
        self.film: Film | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._rows, name)

    def open(self, *given: Any) -> Any:
        return FilmedStore(self._rows.open(*given), self)


class FilmedStore:
    """A store, of which each transaction is filmed; what only reads is passed on."""

    def __init__(self, inner: Any, rows: FilmedRows) -> None:
        self._inner = inner
        self._look = lambda: None if rows.film is None else rows.film.look()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def accept(self, *given: Any, on_commit: Any = None, **named: Any) -> Any:
        def committed(row: Any) -> None:
            self._look()
            if on_commit is not None:
                on_commit(row)

        try:
            return await self._inner.accept(*given, on_commit=committed, **named)
        finally:
            self._look()

    async def commit(self, *writes: Any) -> None:
        try:
            await self._inner.commit(*writes)
        finally:
            self._look()

    def note_answered(self, key: str) -> None:
        self._inner.note_answered(key)
        self._look()

    def note_consumed(self, seqs: Any) -> bool:
        noted = self._inner.note_consumed(seqs)
        self._look()
        return bool(noted)


class FilmedTransport(httpx.AsyncBaseTransport):
    """The way to the platform; each request is filmed."""

    def __init__(self, inner: httpx.AsyncBaseTransport) -> None:
        self._inner = inner
        self.film: Film | None = None

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        fields = await fields_of(request)
        answer = await self._inner.handle_async_request(request)
        text = (await answer.aread()).decode()
        if self.film is not None:
            self.film.add(Asked(request.url.path.strip("/"), fields, answer.status_code, text))
        return httpx.Response(answer.status_code, headers={"content-type": "application/json"}, text=text)


async def fields_of(request: httpx.Request) -> dict[str, str]:
    """Read the fields of a request; of files their size."""
    body = await request.aread()
    kind = request.headers.get("content-type", "")
    if kind.startswith("multipart/"):
        return {"bytes": str(len(body))}
    return dict(parse_qsl(body.decode(), keep_blank_values=True))


# --- the operations that scenes use


@contextmanager
def noted(uses: set[str]) -> Generator[None]:
    """Note each operation that the scenes' own code calls, with the arguments that have defaults."""
    with ExitStack() as patched:
        for name, (owner, attribute, call) in operations_of_classes().items():
            patched.enter_context(patch.object(owner, attribute, _noting(name, call, uses)))
        yield


def operations_of_classes() -> Mapping[str, tuple[Any, str, Callable[..., Any]]]:
    """Return each operation by its name: where it is found, by which name there, and itself."""
    found: dict[str, tuple[Any, str, Callable[..., Any]]] = {}
    for cls in CLASSES:
        for attribute, value in vars(cls).items():
            if callable(value) and (not attribute.startswith("_") or attribute in DUNDERS):
                found[f"{cls.__name__}.{attribute}"] = cls, attribute, value
    for attribute, value in vars(triobot.widgets).items():
        if inspect.iscoroutinefunction(value):
            found[f"widgets.{attribute}"] = triobot.widgets, attribute, value
    return found


def arguments_of(name: str, call: Callable[..., Any]) -> Mapping[str, str]:
    """Return an operation's arguments that have defaults, with how they are noted."""
    given = inspect.signature(call).parameters.values()
    return {one.name: f"{name}({one.name})" for one in given if one.default is not one.empty}


def _noting(name: str, call: Callable[..., Any], uses: set[str]) -> Callable[..., Any]:
    signature, arguments = inspect.signature(call), arguments_of(name, call)

    @wraps(call)
    def note(*given: Any, **named: Any) -> Any:
        if sys._getframe(1).f_code.co_filename == operations.__file__:
            bound = signature.bind(*given, **named).arguments
            uses.add(name)
            uses.update(noted for argument, noted in arguments.items() if argument in bound)
            if name == "Chat.ask" and (kind := bound.get("kind")) is not None:
                uses.add(f"Chat.ask({getattr(kind, '__name__', 'parser')})")
        return call(*given, **named)

    return note


CLASSES: Final = (
    *(Room, Chat, RoomRef, ChatRef, ChatData, Broadcast),
    *(Scope, FailScope, ChatNursery, engine.Event, engine.Channel, Live, Buttons),
)
"""What authors are handed, and what has operations."""
DUNDERS: Final = ("__getitem__", "__setitem__", "__delitem__", "__contains__", "__enter__")


# --- play


async def play(scene: Scene) -> tuple[Take, Release]:
    """Play a scene; return what was filmed, and the store as it was before.

    It is played twice: what notes the calls is a frame of the code, and must be none in the journals.
    """
    uses: set[str] = set()
    with noted(uses):
        await filmed_once(scene)
    entries, base = await filmed_once(scene)
    return Take(scene.name, sorted(uses), entries), base


async def filmed_once(scene: Scene) -> tuple[list[Entry], Release]:
    """Play a scene."""
    alarms: list[Alarm] = []
    rows = MemoryRows()
    rows.number_from(corpus.NUMBERS)
    filmed = FilmedRows(rows)
    late: list[Any] = []

    async def post(body: Body) -> int | None:
        assert filmed.film is not None
        posted = filmed.film.post(body)
        status = await late[0].take(body)
        filmed.film.add(Answered(posted.number))
        assert status == 200, (scene.name, status)
        return int(status)

    with tempfile.TemporaryDirectory() as folder, virtual_time(), stage.no_chance():
        exchange = make_exchange(
            Path(folder),
            post,
            base_url=f"http://{stage.AUTHORITY}",
            chance=random.Random(0),
            clock=ShiftedClock(VirtualWallClock(corpus.BEGAN)),
            push=PushSettings(attempts=1),
        )
        door = make_app(exchange, token=stage.TOKEN, control_token=None, authorities=[stage.AUTHORITY])
        transport = FilmedTransport(InsideTransport(door, exchange.outage))
        async with trio.open_nursery() as nursery:
            process = stage.new_process(nursery, operations.bot, filmed, transport, alarms)  # type: ignore[arg-type]
            late.append(process)
            nursery.start_soon(exchange.pusher.run)
            await process.start()
            await wait_all_tasks_blocked()
            base = base_of(rows.sql)
            filmed.film = transport.film = film = Film(rows.sql)
            people = await invite(exchange, scene)
            for act in (f"/{scene.fn.__name__}", *scene.acts):
                await trio.sleep(BETWEEN)
                other = act if isinstance(act, Other) else Other("Sara", act)
                await perform(people[other.name], other.act)
            await trio.sleep(BETWEEN)
            filmed.film = transport.film = None
            await process.kill()
            nursery.cancel_scope.cancel()
    assert not stage.failures(alarms), (scene.name, [(alarm.kind, alarm.text) for alarm in alarms])
    return film.entries, base


async def invite(exchange: Exchange, scene: Scene) -> Mapping[str, Person]:
    """Have Sara, Ali and Reza there, long since, and if need be a group."""
    app, people = App(InsideControl(exchange)), dict[str, Person]()
    for name, chat_id in (("Sara", 5), ("Ali", 6), ("Reza", 8)):
        user = exchange.world.add_user(
            name,
            user_id=SenderId(70 + chat_id),
            chat_id=ChatId(chat_id),
            irr=scene.wallet if name == "Sara" else 0,
            username=name.lower(),
        )
        exchange.world.chat(user.chat_id).members.add(user.id)
        people[name] = Person(app, view_user(user), user.chat_id, 0)
    if scene.group:
        group = await app.group("group", people["Sara"], people["Ali"], chat_id=9)
        return {name: person.at(group) for name, person in people.items()}
    return people


def base_of(sql: sqlite3.Connection) -> Release:
    """Return the store before anybody has said anything, with no scenes."""
    made = sql.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL").fetchall()
    tables = [name for (name,) in sql.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    kept = [table for table in tables if table not in corpus.CODE]
    base = {table: sorted(sql.execute(f'SELECT * FROM "{table}"').fetchall()) for table in kept}
    drawn = {table: [row for row in rows if row[0] not in _DRAWN] for table, rows in base.items()}
    schema = [statement for name, statement in made if not name.startswith("sqlite_")]
    return Release(schema, {table: rows for table, rows in drawn.items() if rows}, {}, [])


async def perform(person: Person, act: Act) -> None:
    """Have a person do something."""
    match act:
        case Press(label):
            await person.presses(label)
        case Fill(values):
            await person.submits(values)
        case Pay(code, invoice):
            await person.pays(code=code, invoice=invoice)
        case TopUp(rials):
            await person.tops_up(irr=rials)
        case Wait(seconds):
            await trio.sleep(seconds)
        case Leave():
            await person.leaves()
        case Join():
            await person.joins()
        case _:
            await person.says(act)


def code() -> Mapping[str, str]:
    """Return digests of what the scenes consist of: functions without their decorators, classes, values."""
    source = Path(operations.__file__).read_text(encoding="utf-8")
    nodes = ast.parse(source).body
    kit = next(place for place, node in enumerate(nodes) if getattr(node, "name", "") == refused.__name__)
    found: dict[str, str] = {}
    for node in nodes[kit + 1 :]:
        if not isinstance(node, ast.Expr):
            name = getattr(node, "name", None) or ast.unparse(cast("ast.Assign", node).targets[0])
            told = " ".join((ast.get_source_segment(source, node) or "").split())
            found[name] = hashlib.blake2b(told.encode(), digest_size=4).hexdigest()
    return found


def main(arguments: Sequence[str]) -> None:
    """Record the scenes that no file of the corpus has, and those that are named.

    They go into the file of this version whose store has today's tables, or into a further one. What went as
    in an earlier file is not written again.
    """
    given = {path: corpus.read_release(path.read_text("ascii")) for path in corpus.releases()}
    own = {path: one for path, one in given.items() if path.stem.partition("_")[0] == triobot.__version__}
    had = {take.name for one in own.values() for take in one.takes if take.name not in arguments}
    played = {
        name: trio.run(play, scene, clock=MockClock(autojump_threshold=0))
        for name, scene in operations.SCENES.items()
        if name not in had
    }
    if not played:
        return
    base = next(iter(played.values()))[1]
    further = f"{triobot.__version__}_{len(own) + 1}" if own else triobot.__version__
    path = next(
        (path for path, one in own.items() if one.schema == base.schema), corpus.FOLDER / f"{further}.txt"
    )
    release = own.get(path, base)
    takes = {take.name: take for take in release.takes}
    before = {take.name: take for other, one in given.items() if other != path for take in one.takes}
    for name, (take, _) in played.items():
        if take != before.get(name):
            takes[name] = take
            print(path.name, name)
    known = {} if arguments else release.code
    ordered = [takes[name] for name in operations.SCENES if name in takes]
    path.parent.mkdir(exist_ok=True)
    _write(path, attrs.evolve(release, code={**code(), **known}, takes=ordered))
    for other, one in own.items():
        if other != path and any(take.name in arguments for take in one.takes):
            _write(other, attrs.evolve(one, takes=[take for take in one.takes if take.name not in arguments]))


def _write(path: Path, release: Release) -> None:
    path.write_text("\n".join(corpus.write_release(release)) + "\n", "ascii")


if __name__ == "__main__":
    main(sys.argv[1:])
