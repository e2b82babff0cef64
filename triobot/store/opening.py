"""Facts that a store has about the processes that opened it: their number, and how the last process ended."""

from __future__ import annotations

import secrets
from typing import Final

from ..seams.journals import Opening
from .notes import AnyNotes
from .schema import LOG, drop_meta, get_meta, put_meta
from .sql import Sql
from .statements import Tables

LEAP: Final = 10**9
"""Number of inbox numbers that a restore skips: more numbers than a bot uses between two backups."""


def begin_epoch(sql: Sql, now: int, *, above: int = 0) -> None:
    """Begin the next epoch, because after a restore or a failover the store may lack its latest data.

    Args:
        above: epoch of the store that a restored backup replaces; the new epoch is greater.
    """
    put_meta(sql, "epoch", str(max(above, int(get_meta(sql, "epoch") or 0)) + 1))
    put_meta(sql, "restored_at", str(now))
    put_meta(sql, "epoch_at", str(now))
    # The process that had the store open at the time of the backup or failover counts as cleanly stopped.
    put_meta(sql, "clean", str(now))
    # The notes and the log from before the restore don't belong to this store.
    drop_meta(sql, "run")
    drop_meta(sql, LOG)


def count_run(
    sql: Sql, tables: Tables, notes: AnyNotes, *, machine: str | None, now: int, visit: bool = False
) -> Opening:
    """Count this process in the open transaction, and delete the stored fact that the last process stopped
    cleanly.

    A tool's visit leaves the fact of a clean stop in the store, for the bot's next process.

    If the computer has not been restarted since the last process, that process's notes are applied, because
    the kernel keeps written data. So a noted 200 counts as sent, and a noted row counts as consumed. After a
    restart of the computer, or if the computer's boot is unknown, the notes are ignored. The consumed rows in
    the notes are then read again, and the noted deliveries count as unanswered.

    Args:
        machine: identity of this boot of the computer; None on a system without such an identity.
    """
    names = ("boot", "unclean", "epoch", "epoch_at", "run")
    boot, unclean, epoch, epoch_at, run = (int(get_meta(sql, name) or 0) for name in names)
    previous, restored = get_meta(sql, "opened_at"), get_meta(sql, "restored_at")
    clean = get_meta(sql, "clean") is not None
    same_boot = machine is not None and get_meta(sql, "machine") == machine
    if same_boot:
        tables.catch_up(notes.answered_left(), notes.consumed_left(run))
    noted: tuple[int, ...] = ()
    if same_boot and not clean:
        # An earlier visit may have stored the work slots for the bot's next process.
        noted = notes.at_work_left() or tuple(map(int, (get_meta(sql, "at_work") or "").split()))
    # Before a bot's first process, no process can have crashed.
    unclean = unclean + 1 if boot and not clean else 0
    put_meta(sql, "boot", str(boot + 1))
    if not visit:
        drop_meta(sql, "clean")
        drop_meta(sql, "restored_at")
        put_meta(sql, "opened_at", str(now))
        put_meta(sql, "unclean", str(unclean))
        put_meta(sql, "machine", machine or "")
        drop_meta(sql, "at_work")
        put_meta(sql, "run", str(1 + secrets.randbits(62)))
    elif not boot:
        put_meta(sql, "clean", str(now))
    elif noted:
        put_meta(sql, "at_work", " ".join(map(str, noted)))
    return Opening(
        boot + 1,
        now,
        unclean,
        None if previous is None else int(previous),
        epoch,
        restored=restored is not None,
        epoch_at=epoch_at,
        at_work=noted,
    )
