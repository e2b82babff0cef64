"""The copier: copies a store into a new store, in another database or at another address. The copy then
replaces the old store.

No other process has either store open during the copying. Rows keep their numbers, because journals,
payments, keys of signals and data of chats refer to these numbers. The number of a conversation is the number
of its event. Events that come after the copying get larger numbers. The order of the following steps ensures
that a bot never uses both stores:

1. The transaction that creates the new store marks this store as *half copied*. Only the copier opens a
  half-copied store.
2. One transaction copies all rows, and counts the rows of each table. If the transaction fails, no row was
   copied, and a repetition of the command copies all rows.
3. The copy's address is stored in the source. From then on, no bot starts on the source.
4. The flag *half copied* is removed from the copy. If the copying was interrupted after step 3, a repetition
   of the command runs only step 4.

No data is lost by these steps, so no epoch begins: the bot goes on as after a stop. The notes that the
source's last process left for the next process are not copied. So if the last process was killed, no crash
count is raised.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from ...base.clock import WallClock
from ...errors import ConfigError, StoreCorruptError, StoreError
from ..schema import COPIED, COPY_OF, MOVED, Copying, Stamp, drop_meta, file_of, get_meta, put_meta
from .ends import CopyEnd, identity_of, last_number, open_end
from .tables import TABLES, CopiedTable, Row

_REPORT_EVERY: Final = 100_000
_PUT_SETTING: Final = "INSERT INTO settings (name, value) VALUES (?, ?)"
_FACTS: Final = ("epoch", "epoch_at", "restored_at")


def copy_elsewhere(
    origin: str, target: str, *, stamp: Stamp, clock: WallClock, tell: Callable[[str], None]
) -> int | None:
    """Copy a store into a new store at another address, and mark the old store as moved there.

    After an interruption at any point, the same call completes the copy.

    Args:
        stamp: the bot's stamp, for both stores.
        tell: called with reports of progress, as text.

    Returns:
        Number of copied rows; None if an earlier call has copied all rows.

    Raises:
        ConfigError: there is no source, or the target exists; names the remedy.
        StoreError: one of the stores can't be used, or there is no room; the same call can be repeated.
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
        moved = get_meta(source.sql, MOVED)
        if moved not in (None, where):
            raise ConfigError(
                f"{source.name} was copied to {moved} before, and its conversations go on there: copy that"
                " one"
            )
        if moved is None and (problems := source.problems()):
            raise StoreCorruptError(
                f"{source.name} is damaged: {problems[0]}; restore a backup, and copy that"
            )
        if moved is not None and there is None:
            raise _lost(source, moved)
        copy = open_one(target, "to")
        name = get_meta(copy.sql, COPY_OF)
        if moved is not None and (name or get_meta(copy.sql, COPIED)) != get_meta(source.sql, COPIED):
            raise _lost(source, moved)
        if moved is None and name is None:
            raise ConfigError(
                f"there is a store at {copy.name} already, and a copy is made in a new one: name"
                " another, or move this one away"
            )
        with source.reading(), copy.reading():
            rows = _copy(source, copy, tell) if moved is None else None
            _finish(source, copy, where)
        return rows


def _copy(source: CopyEnd, copy: CopyEnd, tell: Callable[[str], None]) -> int:
    """Copy everything in one transaction; return the number of rows.

    Raises:
        StoreError: nothing was copied.
    """
    sql = copy.sql
    settings = source.sql.execute("SELECT name, value FROM settings").fetchall()
    facts = {fact: value for fact in _FACTS if (value := get_meta(source.sql, fact)) is not None}
    last, expected = last_number(source.sql), [table.count(source.sql) for table in TABLES]

    def put_all() -> None:
        # Delete the rows that an earlier attempt copied, if that attempt ended before step 3.
        for name in ("settings", *(table.name for table in TABLES)):
            sql.execute(f"DELETE FROM {name}")
        for table, many in zip(TABLES, expected, strict=True):
            _copy_table(source, copy, table, tell)
            if (found := table.count(sql)) != many:
                raise StoreError(
                    f"the copy isn't complete: of {many} rows of {table.name} it has {found}; nothing was"
                    " copied, and the bot can go on with the store that was to be copied. Try again, and"
                    " report it"
                )
        if settings:
            sql.executemany(_PUT_SETTING, settings)
        for fact, value in facts.items():
            put_meta(sql, fact, value)
        copy.number_from(last)
        put_meta(sql, COPY_OF, secrets.token_hex(8))
        if problems := copy.problems():
            raise StoreCorruptError(f"the copy {copy.name} is damaged: {problems[0]}; look at its disk")

    copy.put(put_all)
    return sum(expected)


def _copy_table(source: CopyEnd, copy: CopyEnd, table: CopiedTable, tell: Callable[[str], None]) -> None:
    copied = reported = 0
    for page in _pages(source, table):
        copy.sql.executemany(table.insert, page)
        copied += len(page)
        if copied - reported >= _REPORT_EVERY:
            reported = copied
            tell(f"{table.name}: {copied:,} rows")


def _pages(source: CopyEnd, table: CopiedTable) -> Iterator[Sequence[Row]]:
    pages = table.pages(source.sql)
    while True:
        # This `with` block contains nothing but a read of the source, because the block converts the source's
        # errors.
        with source.reading():
            page = next(pages, None)
        if page is None:
            return
        yield page


def _finish(source: CopyEnd, copy: CopyEnd, where: str) -> None:
    """Mark the source as moved, and then the copy as complete: steps 3 and 4 of the module's docstring."""
    if (name := get_meta(copy.sql, COPY_OF)) is None:
        return

    def move() -> None:
        put_meta(source.sql, MOVED, where)
        put_meta(source.sql, COPIED, name)

    def free() -> None:
        put_meta(copy.sql, COPIED, name)
        drop_meta(copy.sql, COPY_OF)

    source.put(move)
    copy.put(free)


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


def _shown(url: str) -> str:
    """Return an address that is valid in every working directory."""
    engine, _, place = url.partition(":")
    return url if engine != "sqlite" else f"sqlite:{Path(place).resolve()}"
