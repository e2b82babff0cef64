"""Continues with today's bot from a store as a release left it after a transaction.

The record plays the platform: each event comes at its recorded time, and each request gets its recorded
answer. Three effects of any kill don't count as differences: a request under way is repeated, a decoration of
a chat may be missing, and the ledger asks at other times. A run that has taken a new way at
``run.patched("triobot.NAME")`` may differ, but must not be parked or fail.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import zip_longest
from os.path import commonprefix
from typing import Any, Final

import attrs
import httpx
import trio

from triobot import Bot
from triobot.base.alarm_kinds import Alarm
from triobot.store.memory import MemoryRows
from triobot.store.schema import MIGRATIONS, due_migrations, read_version, run_migration
from triobot.wire.platform_side import Body

from . import corpus, stage
from .corpus import Answered, Asked, At, Posted, Release, Stored, Take
from .record import fields_of

NEW: Final = 500
"""What begins after a cut has a number above `NUMBERS` and this."""
LEDGER: Final = ("payment/", "invoice/")
"""What the ledger asks when it likes: the answer goes by the time."""
OURS: Final = "triobot."
"""Begins the patches of the runtime."""
NOT_PAID: Final = '{"amount":0,"status":"error"}'
_SHOWN: Final = 400
DECORATES: Final = frozenset({"answerCallback", "sendAction"})
"""What is not made up for after a kill."""


@attrs.frozen
class Parting:
    """Two lines, one of which may be none; and the record before them that is still the same."""

    recorded: str | None
    now: str | None
    behind: str | None = None

    def lines(self) -> Iterator[str]:
        """Yield what is shown of it."""
        parts = len(commonprefix([self.recorded or "", self.now or ""]))  # noqa: RUF071
        if self.behind is not None:
            yield f"  behind    {_clipped(self.behind, 0)}"
        yield f"  recorded  {_clipped(self.recorded, parts)}"
        yield f"  now       {_clipped(self.now, parts)}"


@attrs.frozen
class Difference:
    """How what goes on after a cut is not what was recorded: the first record, and the first request."""

    take: Take
    cut: int
    record: Parting | None
    request: Parting | None
    alarms: Sequence[Alarm]

    def __str__(self) -> str:
        lines = [
            f"{self.take.name}, cut at {self.take.time_at(self.cut) / 1000:g} s behind transaction"
            f" {self.take.cuts.index(self.cut) + 1} of {len(self.take.cuts)}:",
            f"  uses      {', '.join(self.take.uses)}",
            *(f"  alarm     {alarm.kind}: {_clipped(alarm.text, 0)}" for alarm in self.alarms),
        ]
        for parting in (self.record, self.request):
            lines += [] if parting is None else parting.lines()
        return "\n".join(lines)


def _clipped(line: str | None, parts: int) -> str:
    """Return what is around the place at which a line and another one part, or all of a short one."""
    first = max(0, parts - _SHOWN // 2)
    if line is None or len(line) <= _SHOWN:
        return line or "nothing more"
    behind = "…" if len(line) > first + _SHOWN else ""
    return f"{line[: _SHOWN // 4]} … {line[first : first + _SHOWN]}{behind}" if first else line[:_SHOWN] + "…"


class Script(httpx.AsyncBaseTransport):
    """The platform after a cut: it answers as it did.

    Attributes:
        left: what was asked after the cut, and is not asked yet.
        wrong: what is asked, and was not.
    """

    def __init__(self, take: Take, cut: int) -> None:
        self.left = [one for one in take.entries[cut:] if isinstance(one, Asked)]
        self.wrong: list[Asked] = []
        self._before = [one for one in take.entries[:cut] if isinstance(one, Asked)]
        recorded = "\n".join(line for lines in take.journals(0, cut).values() for line in lines)
        self._under_way = [one for one in self._before if not _is_in(one, recorded)]
        asked = ((place, one) for place, one in enumerate(take.entries) if isinstance(one, Asked))
        self._ledger = [(take.time_at(place), one) for place, one in asked if one.path.startswith(LEDGER)]
        self._began = trio.current_time() - take.time_at(cut) / 1000

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        await trio.lowlevel.checkpoint()
        asked = Asked(request.url.path.strip("/"), await fields_of(request), 0, "")
        answer = self._told(asked) if asked.path.startswith(LEDGER) else self._found(asked)
        if answer is None:
            self.wrong.append(asked)
            answer = attrs.evolve(asked, status=200, answer='{"id":999}')
        return httpx.Response(answer.status, headers={"content-type": "application/json"}, text=answer.answer)

    def _found(self, asked: Asked) -> Asked | None:
        for among in (self._under_way, self.left):
            if (found := next((one for one in among if _same(one, asked)), None)) is not None:
                among.remove(found)
                return found
        return next((one for one in reversed(self._before) if _same(one, asked)), None)

    def _told(self, asked: Asked) -> Asked | None:
        now = round((trio.current_time() - self._began) * 1000)
        said = [(at, one) for at, one in self._ledger if _same(one, asked)]
        told = [one for at, one in said if at <= now]
        return told[-1] if told else attrs.evolve(asked, status=200, answer=NOT_PAID)


def _is_in(asked: Asked, recorded: str) -> bool:
    """Return whether a journal has what was sent; of other requests that is not told."""
    sent = json.loads(asked.answer or "{}")
    return "id" not in sent or f'"sent":[{asked.fields.get("chat_id")},{sent["id"]}]' in recorded


def _same(one: Asked, other: Asked) -> bool:
    return one.path == other.path and one.fields == other.fields


@cache
def _made(release: Release) -> sqlite3.Connection:
    sql = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    for statement in release.schema:
        sql.execute(statement)
    for table, rows in release.base.items():
        for row in rows:
            sql.execute(f'INSERT INTO "{table}" VALUES ({", ".join("?" * len(row))})', row)
    return sql


def is_in_doubt(rows: MemoryRows) -> bool:
    """Return whether a kill left an operation that may not be repeated: it fails, and so goes another way."""
    effects = "SELECT 1 FROM effects WHERE result IS NULL"
    invoices = "SELECT 1 FROM payments WHERE state = 'sending' AND grouped LIKE 'invoice %'"
    return any(rows.sql.execute(which).fetchone() for which in (effects, invoices))


def store_at(release: Release, take: Take, cut: int) -> MemoryRows:
    """Make the store that was there behind a cut, in the schema of today."""
    sql = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    _made(release).backup(sql)
    bodies = take.bodies
    for entry in take.entries[:cut]:
        if isinstance(entry, Stored):
            corpus.apply(sql, entry, bodies)
    for migration in due_migrations(read_version(sql), MIGRATIONS):
        run_migration(sql, migration, MIGRATIONS)
    rows = MemoryRows()
    sql.backup(rows.sql)
    sql.close()
    rows.number_from(corpus.NUMBERS + NEW)
    rows.sql.execute("CREATE TEMP TABLE said (conversation, n, records)")
    rows.sql.execute(
        "CREATE TEMP TRIGGER saying AFTER INSERT ON journal BEGIN"
        " INSERT INTO said VALUES (NEW.conversation, NEW.n, NEW.records); END"
    )
    return rows


async def go_on(bot: Bot, release: Release, take: Take, cut: int) -> Difference | None:
    """Start the bot on the store behind a cut, and play the rest; return the first difference."""
    alarms: list[Alarm] = []
    rows, script, began = store_at(release, take, cut), Script(take, cut), take.time_at(cut)
    if is_in_doubt(rows):
        return None
    posted = [one for one in take.entries[:cut] if isinstance(one, Posted)]
    answered = {one.number for one in take.entries[:cut] if isinstance(one, Answered)}
    async with trio.open_nursery() as nursery:
        start = trio.current_time()
        process = stage.new_process(nursery, bot, rows, script, alarms, at=began)
        await process.start()
        for entry in [*(one for one in posted if one.number not in answered), *take.entries[cut:]]:
            match entry:
                case At(time):
                    await trio.sleep_until(start + (time - began) / 1000)
                case Posted(_, content_type, body):
                    nursery.start_soon(process.take, Body(content_type, body.encode()))
                case _:
                    pass
        await trio.sleep(3)
        await process.kill()
        nursery.cancel_scope.cancel()
    said: dict[int, list[str]] = {}
    for number, _, lines in rows.sql.execute("SELECT * FROM said ORDER BY rowid").fetchall():
        said.setdefault(number, []).extend(lines.split("\n"))
    if any('["V",' in line and f'"{OURS}' in line for lines in said.values() for line in lines):
        record = request = None
    else:
        record = next(_other_records(take, cut, said), None)
        request = next(_other_requests(take, script), None)
    failures = stage.failures(alarms)
    return Difference(take, cut, record, request, failures) if record or request or failures else None


def _other_requests(take: Take, script: Script) -> Iterator[Parting]:
    decorates = DECORATES | ({"editMessage"} if "Chat.live" in take.uses else set())
    left = [one for one in script.left if one.path not in decorates and not one.path.startswith(LEDGER)]
    for asked in (one for one in script.wrong if one.path not in decorates):
        yield Parting(left[0].line if left else None, asked.line)
    for asked in left:
        yield Parting(asked.line, None)


def _other_records(take: Take, cut: int, said: Mapping[int, Sequence[str]]) -> Iterator[Parting]:
    recorded, before = take.journals(cut), take.journals(0, cut)
    new = [number for number in said if number > corpus.NUMBERS + NEW]
    for number, was in recorded.items():
        if number not in said:
            route = json.loads(was[0])[2]
            same = [one for one in new if json.loads(said[one][0])[2] == route]
            number = same[0] if same else number
            new = [one for one in new if one != number]
        now: Sequence[str] = said.get(number, ())
        if not {"Chat.charge", "Chat.invoice"}.isdisjoint(take.uses):
            was, now = _without_ledger(was), _without_ledger(now)
        if "Chat.live" in take.uses:
            was, now = _without_tidying(was), _without_tidying(now)
            if "Room.step" in take.uses:
                was, now = _without_last_text(was), _without_last_text(now)
        behind = [*before.get(number, ["the start"])][-1]
        for one, two in zip_longest(was, now):
            if one is None or two is None or (one != two and not _same_record(one, two)):
                yield Parting(one, two, behind)
            behind = two
    for number in {*said} - {*recorded}:
        if number in new or number < corpus.NUMBERS + NEW:
            yield Parting(None, said[number][0])


def _without_ledger(lines: Sequence[str]) -> list[str]:
    """Leave out what a kill does to what waits for money: it hears of no news once more, and later."""
    kept: list[Any] = []
    for record in map(json.loads, lines):
        if record[0] != "D" or record[3] != "verify" or record[5] != {"tuple": [[], None]}:
            kept.append(record)
        elif kept and "triobot.PaymentNews" in corpus.dump(kept[-1]):
            kept.pop()
    return [corpus.dump(_without_times([record[0], record[1], "id", *record[3:]])) for record in kept]


def _without_times(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_times(one) for one in value]
    if isinstance(value, dict):
        return {key: _without_times(one) for key, one in value.items()}
    return "time" if type(value) is int and value > corpus.BEGAN else value


def _without_tidying(lines: Sequence[str]) -> list[str]:
    """Leave out that a message has to be tidied: after a kill nobody knows what it shows."""
    return [line for line in lines if not (line.startswith('["P"') and '"tidy ' in line)]


def _without_last_text(lines: Sequence[str]) -> list[str]:
    """Leave out which text is shown last: a step that was over before the kill shows nothing again."""
    records = [json.loads(line) for line in lines]
    return [
        corpus.dump([*one[:4], "", *one[5:]] if one[3:4] == ["send editMessage"] else one) for one in records
    ]


def _same_record(was: str, now: str) -> bool:
    """Return whether two records are the same, but for what a kill may change."""
    one, other = corpus.without_sites(json.loads(was)), corpus.without_sites(json.loads(now))
    match one, other:
        case ["O", _, _, str() as key, _], ["O", *_] if key.startswith("doubt "):
            one, other = one[:4], other[:4]  # the user may see the question twice
        case ["O", _, _, str() as key, _], ["O", *_] if key.startswith("live "):
            one, other = one[:4], other[:4]  # a finished step shows its text only once
        case ["S", *_, [*_, str()], _, _], ["S", *_, [*_, None], _, _]:
            one[3][-1] = None  # the interrupted conversation ended before the kill
        case ["D", _, _, "start" | "stop" | "broadcast", _, True], ["D", _, _, _, _, False]:
            one, other = one[:5], other[:5]  # the interrupted operation was already done
        case _:
            pass
    return _alike(one, other)


def _alike(one: Any, other: Any) -> bool:
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_alike, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        if isinstance(one.get("class"), list) and [*other] == ["class"] and one["class"][0].startswith(OURS):
            # A later release may add a field to a class of triobot; the field is None here.
            (_, known), (name, fields) = one["class"], other["class"]
            shown = {key: value for key, value in fields.items() if key in known or value is not None}
            other = {"class": [name, shown]}
        # A kill leaves moves of its own in the ledger.
        return [*one] == [*other] and all(key == "revision" or _alike(one[key], other[key]) for key in one)
    return bool(one == other or (_is_number(one) and _is_number(other)))


def _is_number(value: object) -> bool:
    """Return whether this is a row's number, or that of an event without a row."""
    return type(value) is int and (corpus.NUMBERS < value < corpus.BEGAN or -1_000 < value < 0)
