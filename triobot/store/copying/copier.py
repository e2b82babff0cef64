"""The copier: copies a store into a new store of another engine or place, which replaces the first store.

No other process has either store open during the copying. Rows are copied in pages. Each page is durable
before the next page begins. If the copy is interrupted, the same command continues after the last stored
page. Rows keep their numbers, because journals, payments, keys of signals and data of chats refer to them: a
conversation has the number of its event. Numbers that are given after the copying are larger. The order of
the steps ensures that a bot never runs on both stores:

1. The transaction that makes the copy marks it as *half copied*. Only a run of the copier opens such a copy.
2. All rows are copied, and counted table by table.
3. The source gets a note of the copy's address: no bot starts on the source any more.
4. The mark *half copied* is removed from the copy.

No data is lost by these steps, so no epoch begins: the bot goes on as after a stop. The notes that the
source's last run left for the next run are not copied, so a kill while code ran is not counted.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Final, final

from ...base.clock import WallClock
from ...base.frozen import guarded
from ...errors import (
    ConfigError,
    StoreAwayError,
    StoreCorruptError,
    StoreError,
    StoreFullError,
    StoreLockedError,
)
from ..schema import COPIED, COPY_OF, MOVED, Copying, Stamp, drop_meta, file_of, get_meta, put_meta
from .ends import CopyEnd, identity_of, last_number, open_end
from .tables import TABLES, Row

_COPYING: Final = "copying"
"""Fact of a source: the name of the copy in progress, and the source's boot number then."""
_UP_TO: Final = "copied_up_to"
"""Fact of a copy: the table and the key up to which rows are copied."""
_TOLD_EVERY: Final = 100_000
_PUT_SETTING: Final = "INSERT INTO settings (name, value) VALUES (?, ?) ON CONFLICT (name) DO NOTHING"
_SETTINGS: Final = "SELECT name, value FROM settings"


@final
@guarded
class TableCount:
    """Number of rows of a table in the source and in the copy."""

    table: str
    expected: int
    found: int


def copy_elsewhere(
    origin: str, target: str, *, stamp: Stamp, clock: WallClock, tell: Callable[[str], None]
) -> Sequence[TableCount]:
    """Copy a store into a new store at another address, and mark the old store as moved there.

    After an interruption at any point, the same call finishes the copy.

    Args:
        stamp: the bot's stamp, for both stores.
        tell: called with reports of progress, as text.

    Returns:
        The counted tables; empty, if the copy was complete before this call.

    Raises:
        ConfigError: there is no source, or the target exists; names the remedy.
        StoreError: one of the stores can't be used, or there is no room; neither store was marked.
    """
    _check_address(origin)
    _check_address(target)
    there = identity_of(target)
    if there is not None and there == identity_of(origin):
        raise ConfigError("both addresses are of the same store: a copy is made in a new one")
    where, now = _shown(target), clock.now()
    with ExitStack() as opened:

        def open_one(address: str, copying: Copying) -> CopyEnd:
            end = open_end(address, stamp, now=now, copying=copying)
            opened.callback(end.close)
            return end

        source = open_one(origin, "from")
        _note_visit(source)
        moved = get_meta(source.sql, MOVED)
        if moved not in (None, where):
            raise ConfigError(
                f"{source.name} was copied to {moved} before, and its conversations go on there: copy that"
                " one"
            )
        # If a copy was begun, the source was checked at that time, and hasn't changed since.
        if _begun(source) is None and (problems := source.problems()):
            raise StoreCorruptError(
                f"{source.name} is damaged: {problems[0]}; restore a backup, and copy that"
            )
        if moved is not None and there is None:
            raise _lost(source, moved)
        try:
            copy = open_one(target, "to")
        except StoreLockedError:
            if moved is not None:
                raise ConfigError(
                    f"{origin} was copied to {where} before, and another process has that one open:"
                    " there is nothing left to do"
                ) from None
            raise
        if moved is None and there is not None and get_meta(copy.sql, COPY_OF) is None:
            raise ConfigError(
                f"there is a store at {copy.name} already, and a copy is made in a new one: name"
                " another, or move this one away"
            )
        known = get_meta(copy.sql, COPY_OF) or get_meta(copy.sql, COPIED)
        if moved is not None and known != get_meta(source.sql, COPIED):
            raise _lost(source, moved)
        try:
            with source.reading(), copy.reading():
                return Copier(source, copy, where, tell).run()
        except StoreAwayError as error:
            raise StoreAwayError(f"{error}; run the same command again: it goes on where it was") from error
        except StoreFullError as error:
            raise StoreFullError(
                f"{error}; make room there, and run the same command again: it goes on where it was"
            ) from error


@final
class Copier:
    """Copies one open store into another.

    Args:
        where: the target's address, which the source will refer to.
    """

    def __init__(self, source: CopyEnd, target: CopyEnd, where: str, tell: Callable[[str], None]) -> None:
        self._source = source
        self._target = target
        self._where = where
        self._tell = tell

    def run(self) -> Sequence[TableCount]:
        """Do all steps of a copy. After an interruption, do the remaining steps."""
        if get_meta(self._source.sql, MOVED) is not None:
            self._finish(get_meta(self._source.sql, COPIED) or "")
            return ()
        name = _begun(self._source)
        if name is None or get_meta(self._target.sql, COPY_OF) != name:
            name = self._begin()
        self._source.put(partial(put_meta, self._source.sql, _COPYING, f"{name} {self._source.boot}"))
        for at in range(len(TABLES)):
            self._copy_table(at)
        self._copy_the_rest()
        counts = self._counted()
        self._finish(name)
        return counts

    def _begin(self) -> str:
        """Delete the rows of an older attempt from the copy, and name this attempt."""
        sql = self._target.sql
        if get_meta(sql, COPY_OF):
            self._tell("the store was opened since its copy was begun, so the copy begins anew")
        name = secrets.token_hex(8)

        def empty() -> None:
            for table in ("settings", *(table.name for table in TABLES)):
                sql.execute(f"DELETE FROM {table}")
            drop_meta(sql, _UP_TO)
            put_meta(sql, COPY_OF, name)

        self._target.put(empty)
        return name

    # --- rows

    def _copy_table(self, at: int) -> None:
        table = TABLES[at]
        reached, after = json.loads(get_meta(self._target.sql, _UP_TO) or "[0, null]")
        if at < reached:
            return
        copied = told = 0
        # Only errors of the source are converted by this inner context: an error of the target keeps its own
        # type.
        with self._source.reading():
            for page in table.pages(self._source.sql, after if at == reached else None):
                self._write(table.insert, page, json.dumps([at, page[-1][: len(table.key)]]))
                copied += len(page)
                if copied - told >= _TOLD_EVERY:
                    told = copied
                    self._tell(f"{table.name}: {copied:,} rows")
        self._write(table.insert, (), json.dumps([at + 1, None]))

    def _write(self, insert: str, rows: Sequence[Row], up_to: str) -> None:
        sql = self._target.sql

        def put() -> None:
            if rows:
                sql.executemany(insert, rows)
            put_meta(sql, _UP_TO, up_to)

        self._target.put(put)

    def _copy_the_rest(self) -> None:
        """Copy settings, the last event's number and the epoch."""
        source, sql = self._source.sql, self._target.sql
        last, settings = last_number(source), source.execute(_SETTINGS).fetchall()
        facts = {fact: get_meta(source, fact) for fact in ("epoch", "epoch_at", "restored_at")}

        def put() -> None:
            if settings:
                sql.executemany(_PUT_SETTING, settings)
            for fact, value in facts.items():
                if value is not None:
                    put_meta(sql, fact, value)
            self._target.number_from(last)

        self._target.put(put)

    # --- the end

    def _counted(self) -> Sequence[TableCount]:
        """Count all rows in both stores.

        Raises:
            StoreError: the numbers differ; nothing is marked then.
        """
        source, sql = self._source.sql, self._target.sql
        counts = [TableCount(table.name, table.count(source), table.count(sql)) for table in TABLES]
        wrong = [one for one in counts if one.expected != one.found]
        if wrong:
            told = ", ".join(f"{one.table} {one.found} of {one.expected}" for one in wrong)
            raise StoreError(
                f"the copy isn't complete: {told}; nothing was marked, and the bot can go on with the store"
                " that was to be copied. Remove the copy, try again, and report it"
            )
        if problems := self._target.problems():
            raise StoreCorruptError(
                f"the copy {self._target.name} is damaged: {problems[0]}; look at its disk"
            )
        return counts

    def _finish(self, name: str) -> None:
        """Mark the source as moved, then the copy as complete; see the module's docstring."""
        source, sql = self._source.sql, self._target.sql

        def move() -> None:
            put_meta(source, MOVED, self._where)
            put_meta(source, COPIED, name)
            drop_meta(source, _COPYING)

        if get_meta(source, MOVED) is None:
            self._source.put(move)

        def free() -> None:
            put_meta(sql, COPIED, name)
            drop_meta(sql, COPY_OF)
            drop_meta(sql, _UP_TO)

        if get_meta(sql, COPY_OF) is not None:
            self._target.put(free)


def _check_address(url: str) -> None:
    engine, _, place = url.partition(":")
    file_of(url)
    if engine not in ("sqlite", "postgresql") or not place or (engine, place[:2]) == ("sqlite", "//"):
        raise ConfigError("what is copied, and where to, is sqlite:PATH or postgresql://HOST/DATABASE")


def _lost(source: CopyEnd, where: str) -> ConfigError:
    return ConfigError(
        f"{source.name} was copied to {where} before, and the copy isn't there: bring it back. If it"
        " is lost, `triobot store backup` and `restore` make a store of this one again"
    )


def _note_visit(source: CopyEnd) -> None:
    """Note at once that a copy has opened the store: the next steps, such as opening the target, may fail."""
    name, _, boot = (get_meta(source.sql, _COPYING) or "").partition(" ")
    if name and boot == str(source.boot - 1):
        source.put(partial(put_meta, source.sql, _COPYING, f"{name} {source.boot}"))


def _begun(source: CopyEnd) -> str | None:
    """Return the name of the copy that was begun. Return None if another program than the copier has opened
    the source since then.
    """
    name, _, boot = (get_meta(source.sql, _COPYING) or "").partition(" ")
    return name if name and boot == str(source.boot) else None


def _shown(url: str) -> str:
    """Return an address that is valid in every working directory."""
    engine, _, place = url.partition(":")
    return url if engine != "sqlite" else f"sqlite:{Path(place).resolve()}"
