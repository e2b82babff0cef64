"""Copies a store into a new one, of another engine or in another number of shards, and has it go on there.

Nobody has either of them open meanwhile. A copy is made in pages, each durable in all shards before the next
one begins: who runs the same copy again after it was cut off goes on behind the last page. The order of the
end is what keeps a bot from running on both, or on a part:

1. A shard of the copy says from the transaction in which it is made that it is *half copied*. Nothing but a
   copy opens it.
2. All rows are there, and counted table by table.
3. The source says where it was moved to, its home shard first: no bot starts on it any more.
4. The copy stops saying that it is half copied, its home shard last: until then no bot starts on it.

Nothing is lost by that, so no epoch begins: it goes on as after a stop. What the last run of the source has
noted about its own end isn't copied: a kill at which code was at work counts no more.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias, final

import attrs

from ...errors import (
    ConfigError,
    StoreAwayError,
    StoreCorruptError,
    StoreError,
    StoreFullError,
    StoreLockedError,
)
from ...seams import WallClock
from ...shards import MADE, MEMBER_OF, ShardedAddress, home_of, read_shards
from ..schema import COPIED, COPY_OF, MOVED, Copying, Stamp, drop_meta, get_meta, put_meta
from .broadcasts import refuse_half_started
from .ends import CopyEnd, identity_of, last_number, open_end
from .tables import TABLES, Division, Row

_COPYING: Final = "copying"
"""The fact of a source that says which copy of it is being made, and at which opening."""
_UP_TO: Final = "copied_up_to"
"""The fact of a copy's home shard that says which rows are in all of its shards."""
_TOLD_EVERY: Final = 100_000
_PUT_SETTING: Final = "INSERT INTO settings (name, value) VALUES (?, ?) ON CONFLICT (name) DO NOTHING"
_SETTINGS: Final = "SELECT name, value FROM settings"

Settings: TypeAlias = Mapping[str, str]


@final
@attrs.frozen
class SettingsFound:
    """What is known where the settings of a copy are decided.

    Attributes:
        sources: the settings of each shard that is copied.
        epochs: how often each was restored from a backup.
        home: of the sources, the one with what is the whole bot's.
        shards: how many the copy has.
        shard_of_event: returns which shard of the copy has an event that waits; None if none does.
    """

    sources: Sequence[Settings] = attrs.field(repr=False)
    epochs: Sequence[int]
    home: int
    shards: int
    shard_of_event: Callable[[int], int | None]


Divide: TypeAlias = Callable[[SettingsFound], Sequence[Settings]]
"""Returns the settings of each shard of a copy."""


@final
@attrs.frozen
class TableCount:
    """How many rows of a table there were to be copied, and how many are in the copy."""

    table: str
    expected: int
    found: int


def copy_elsewhere(
    origin: str, target: str, *, stamp: Stamp, clock: WallClock, divide: Divide, tell: Callable[[str], None]
) -> Sequence[TableCount]:
    """Copy the store at one address into a new one at another, and mark the first as moved there.

    Done again after it was cut off, wherever that was, it comes to the same.

    Args:
        stamp: the bot's: both stores are its own.
        divide: decides what becomes of the settings, which other packages keep.
        tell: told, in words, how far it is.

    Returns:
        What was counted; nothing, if all was done before.

    Raises:
        ConfigError: there is nothing to copy, or something where the copy is to be; names what to do.
        StoreError: one of the two can't be used, or there is no room; nothing was marked.
    """
    one, other = _address(origin), _address(target)
    there = _made_ends(one, other)
    now = clock.now()
    with ExitStack() as opened:

        def open_one(address: str, copying: Copying) -> CopyEnd:
            end = open_end(address, stamp, now=now, copying=copying)
            opened.callback(end.close)
            if copying == "from":
                _note_visit(end)
            return end

        _refuse_missing(one)
        sources = [open_one(each, "from") for each in one.each]
        _refuse_strangers(sources)
        _refuse_moved(sources, _shown(target))
        if _begun(sources) is None:  # else it was looked at when that copy was begun, and is the same
            _refuse_damaged(sources)
        try:
            # First those that are there: while one of them may be refused, nothing is made beside it.
            found = {each: open_one(each, "to") for each in there}
        except StoreLockedError:
            if all(get_meta(source.sql, MOVED) == _shown(target) for source in sources):
                raise ConfigError(
                    f"{origin} was copied to {_shown(target)} before, and another process has that one open:"
                    " there is nothing left to do"
                ) from None
            raise
        _refuse_finished(sources, list(found.values()), len(other.each))
        targets = [found[each] if each in found else open_one(each, "to") for each in other.each]
        copier = Copier(sources, targets, _shown(target), divide, tell)
        try:
            with ExitStack() as asked:
                for end in (*sources, *targets):
                    asked.enter_context(end.reading())
                return copier.run()
        except StoreAwayError as error:
            raise StoreAwayError(f"{error}; run the same command again: it goes on where it was") from error
        except StoreFullError as error:
            raise StoreFullError(
                f"{error}; make room there, and run the same command again: it goes on where it was"
            ) from error


@final
class Copier:
    """Copies from stores that are open into others.

    Args:
        where: what the sources are to say of where they have moved.
    """

    def __init__(
        self,
        sources: Sequence[CopyEnd],
        targets: Sequence[CopyEnd],
        where: str,
        divide: Divide,
        tell: Callable[[str], None],
    ) -> None:
        self._sources = sources
        self._targets = targets
        self._where = where
        self._divide = divide
        self._tell = tell
        self._division = Division([source.sql for source in sources], len(targets))
        # Each in the order in which its shards are marked at the end.
        self._homes_first = _home_first(sources)
        self._homes_last = _home_first(targets)[::-1]

    @property
    def _home(self) -> CopyEnd:
        return self._targets[self._division.home]

    def run(self) -> Sequence[TableCount]:
        """Do all of it, or what is left of it."""
        moved = {get_meta(source.sql, COPIED) for source in self._sources if get_meta(source.sql, MOVED)}
        if moved:
            (name,) = moved
            assert name is not None
            self._finish(name)
            return ()
        name = self._resumed()
        if name is None:
            name = self._begin()
        self._note_resumable(name)
        for at in range(len(TABLES)):
            self._copy_table(at)
        self._copy_the_rest(name)
        counts = self._counted()
        self._finish(name)
        return counts

    # --- the beginning

    def _resumed(self) -> str | None:
        """Return the name of the copy that was cut off, if this is it, and its source is as it was."""
        begun = _begun(self._sources)
        return begun if all(get_meta(target.sql, COPY_OF) == begun for target in self._targets) else None

    def _begin(self) -> str:
        """Empty the copy, whatever of an older one is there, and give this one a name."""
        if any(get_meta(target.sql, COPY_OF) for target in self._targets):
            self._tell("the store was opened since its copy was begun, so the copy begins anew")
        name = secrets.token_hex(8)
        for target in self._targets:

            def empty(sql: Any = target.sql) -> None:
                for table in ("settings", *(table.name for table in TABLES)):
                    sql.execute(f"DELETE FROM {table}")
                drop_meta(sql, _UP_TO)
                put_meta(sql, COPY_OF, name)

            target.put(empty)
        return name

    def _note_resumable(self, name: str) -> None:
        for source in self._sources:
            source.put(partial(put_meta, source.sql, _COPYING, f"{name} {source.boot}"))

    # --- rows

    def _copy_table(self, at: int) -> None:
        table = TABLES[at]
        reached, first, after = json.loads(get_meta(self._home.sql, _UP_TO) or "[0, 0, null]")
        if at < reached:
            return
        if at > reached:
            first, after = 0, None
        copied = told = 0
        for number in range(first, len(self._sources)):
            source = self._sources[number]
            # What goes wrong at a target comes as its own error.
            with source.reading():
                for page in table.pages(source.sql, after):
                    key = page[-1][: len(table.key)]
                    self._write(table.insert, self._placed(at, number, page), json.dumps([at, number, key]))
                    copied += len(page)
                    if copied - told >= _TOLD_EVERY:
                        told = copied
                        self._tell(f"{table.name}: {copied:,} rows")
            after = None
        self._write(table.insert, {}, json.dumps([at + 1, 0, None]))

    def _placed(self, at: int, number: int, page: Sequence[Row]) -> Mapping[int, Sequence[Row]]:
        placed: dict[int, list[Row]] = {}
        for row in page:
            for shard, values in TABLES[at].place(self._division, number, row):
                placed.setdefault(shard, []).append(values)
        return placed

    def _write(self, insert: str, placed: Mapping[int, Sequence[Row]], up_to: str) -> None:
        """Put a page in; the home shard's last, with how far it is then: so all the others have it, too."""
        for shard, rows in placed.items():
            if shard != self._division.home:
                target = self._targets[shard]
                target.put(partial(target.sql.executemany, insert, rows))
        sql, rows = self._home.sql, placed.get(self._division.home, ())

        def put() -> None:
            if rows:
                sql.executemany(insert, rows)
            put_meta(sql, _UP_TO, up_to)

        self._home.put(put)

    def _copy_the_rest(self, name: str) -> None:
        """Put in what a shard has besides its rows: settings, from which number on it numbers, its epoch."""
        last = max(last_number(sql) for sql in self._division.sources)
        facts = self._facts()
        for target, settings in zip(self._targets, self._settings(name), strict=True):

            def put(target: CopyEnd = target, settings: Settings = settings) -> None:
                if settings:
                    target.sql.executemany(_PUT_SETTING, list(settings.items()))
                for fact, value in facts.items():
                    put_meta(target.sql, fact, value)
                target.number_from(last)

            target.put(put)

    def _facts(self) -> Mapping[str, str]:
        """Return what the store knows of backups: the newest epoch, and whether a bot has run in it."""
        facts: dict[str, str] = {}
        for fact in ("epoch", "epoch_at", "restored_at"):
            found = [int(value) for sql in self._division.sources if (value := get_meta(sql, fact))]
            if found:
                facts[fact] = str(max(found))
        return facts

    def _settings(self, name: str) -> Sequence[Settings]:
        sources = self._division.sources

        def shard_of_event(seq: int) -> int | None:
            chat = self._division.chat_of("SELECT chat_id FROM inbox WHERE seq = ?", seq)
            return None if chat is None else self._division.of_chat(chat)

        found = SettingsFound(
            [dict(sql.execute(_SETTINGS).fetchall()) for sql in sources],
            [int(get_meta(sql, "epoch") or 0) for sql in sources],
            home_of(len(sources)),
            len(self._targets),
            shard_of_event,
        )
        divided = [dict(one) for one in self._divide(found)]
        for settings in divided:
            settings.pop(MADE, None)
            settings.pop(MEMBER_OF, None)
        if len(self._targets) > 1:
            for settings in divided:
                settings[MEMBER_OF] = name
            divided[self._division.home][MADE] = name
        return divided

    # --- the end

    def _counted(self) -> Sequence[TableCount]:
        """Count all rows on both sides.

        Raises:
            StoreError: something is missing, or too much; nothing is marked then.
        """
        counts = [
            TableCount(
                table.name,
                table.count_expected(self._division),
                sum(table.count(target.sql) for target in self._targets),
            )
            for table in TABLES
        ]
        wrong = [one for one in counts if one.expected != one.found]
        if wrong:
            told = ", ".join(f"{one.table} {one.found} of {one.expected}" for one in wrong)
            raise StoreError(
                f"the copy isn't complete: {told}; nothing was marked, and the bot can go on with the store"
                " that was to be copied. Remove the copy, try again, and report it"
            )
        for target in self._targets:
            if problems := target.problems():
                raise StoreCorruptError(f"the copy {target.name} is damaged: {problems[0]}; look at its disk")
        return counts

    def _finish(self, name: str) -> None:
        """Let the copy take the source's place; see this module."""
        for source in self._homes_first:

            def move(sql: Any = source.sql) -> None:
                put_meta(sql, MOVED, self._where)
                put_meta(sql, COPIED, name)
                drop_meta(sql, _COPYING)

            if get_meta(source.sql, MOVED) is None:
                source.put(move)
        for target in self._homes_last:

            def free(sql: Any = target.sql) -> None:
                put_meta(sql, COPIED, name)
                drop_meta(sql, COPY_OF)
                drop_meta(sql, _UP_TO)

            if get_meta(target.sql, COPY_OF) is not None:
                target.put(free)


def _home_first(ends: Sequence[CopyEnd]) -> Sequence[CopyEnd]:
    home = home_of(len(ends))
    return [ends[home], *(end for at, end in enumerate(ends) if at != home)]


# --- addresses


def _address(url: str) -> ShardedAddress:
    address = read_shards(url)
    engine, _, place = address.whole.partition(":")
    if engine not in ("sqlite", "postgresql") or not place or (engine, place[:2]) == ("sqlite", "//"):
        raise ConfigError("what is copied, and where to, is sqlite:PATH or postgresql://HOST/DATABASE")
    if address.shard is not None:
        raise ConfigError("all shards of a store are copied together: leave &shard= out of its address")
    return address


def _files(address: ShardedAddress) -> Sequence[Path]:
    each = (read_shards(one).file for one in address.each)
    return [file.resolve() for file in each if file is not None]


def _made_ends(one: ShardedAddress, other: ShardedAddress) -> Sequence[str]:
    """Return which shards of the second store, the copy, are made already.

    Raises:
        ConfigError: one of them is the first store's, however its address is spelled.
    """
    found = {each: identity_of(each) for each in other.each}
    there = [each for each, identity in found.items() if identity is not None]
    if not {found[each] for each in there}.isdisjoint(map(identity_of, one.each)):
        raise ConfigError("both addresses are of the same store: a copy is made in a new one")
    return there


def _refuse_finished(sources: Sequence[CopyEnd], there: Sequence[CopyEnd], ends: int) -> None:
    """Refuse a target that is no copy in the making, or not all of the copy that the sources have become."""
    moved = {get_meta(source.sql, COPIED) for source in sources if get_meta(source.sql, MOVED)}
    if not moved:
        for target in there:
            if get_meta(target.sql, COPY_OF) is None:
                raise ConfigError(
                    f"there is a store at {target.name} already, and a copy is made in a new one: name"
                    " another, or move this one away"
                )
        return
    known = {get_meta(target.sql, COPY_OF) or get_meta(target.sql, COPIED) for target in there}
    if len(moved) != 1 or known != moved or len(there) < ends:
        where = next(where for source in sources if (where := get_meta(source.sql, MOVED)))
        raise ConfigError(
            f"{sources[0].name} was copied to {where} before, and the copy isn't there: bring it back. If it"
            " is lost, `triobot store backup` and `restore` make a store of this one again"
        )


def _refuse_missing(address: ShardedAddress) -> None:
    """Refuse a store of which some files are gone; where all are, opening it says so."""
    missing = [file for file in _files(address) if not file.is_file()]
    if missing and len(missing) < len(address.each):
        raise ConfigError(
            f"the store {address.whole} isn't whole: {missing[0]} isn't there; bring it back, from a backup"
            " if need be: its chats are nowhere else"
        )


def _note_visit(source: CopyEnd) -> None:
    """Note that this opening is a copy's own, at once: what comes next may fail, as opening the target."""
    name, _, boot = (get_meta(source.sql, _COPYING) or "").partition(" ")
    if name and boot == str(source.boot - 1):
        source.put(partial(put_meta, source.sql, _COPYING, f"{name} {source.boot}"))


def _begun(sources: Sequence[CopyEnd]) -> str | None:
    """Return the name of the copy that was begun, if nobody else has opened any of its sources since."""
    names = set[str | None]()
    for source in sources:
        name, _, boot = (get_meta(source.sql, _COPYING) or "").partition(" ")
        names.add(name if boot == str(source.boot) else None)
    return names.pop() if len(names) == 1 else None


def _refuse_moved(sources: Sequence[CopyEnd], where: str) -> None:
    """Refuse a store that goes on elsewhere; a copy of it may be at its very end."""
    for source in sources:
        there = get_meta(source.sql, MOVED)
        if there not in (None, where):
            raise ConfigError(
                f"{source.name} was copied to {there} before, and its conversations go on there: copy that"
                " one"
            )


def _refuse_damaged(sources: Sequence[CopyEnd]) -> None:
    for source in sources:
        if problems := source.problems():
            raise StoreCorruptError(
                f"{source.name} is damaged: {problems[0]}; restore a backup, and copy that"
            )
    refuse_half_started([source.sql for source in sources])


def _refuse_strangers(sources: Sequence[CopyEnd]) -> None:
    """Refuse shards that don't belong together."""
    statement = "SELECT value FROM settings WHERE name = ?"
    rows = [source.sql.execute(statement, (MEMBER_OF,)).fetchone() for source in sources]
    if len({row[0] for row in rows if row is not None}) > 1:
        raise ConfigError(
            f"the shards beside {sources[0].name} are of different stores; bring back those that belong"
            " together"
        )


def _shown(url: str) -> str:
    """Return an address as it is true in another folder, too."""
    address = read_shards(url)
    engine, _, place = address.whole.partition(":")
    if engine != "sqlite":
        return url
    shards = "" if address.shards is None else f"?shards={address.shards}"
    return f"sqlite:{Path(place).resolve()}{shards}"
