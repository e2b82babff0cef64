"""What a store knows of its own runs: how many there were, and how the last one ended."""

from __future__ import annotations

import secrets
from typing import Final

from ..seams.journals import Opening
from .notes import AnyNotes
from .schema import LOG, drop_meta, get_meta, put_meta
from .sql import Sql
from .statements import Tables

LEAP: Final = 10**9
"""How far the inbox's numbers jump at a restore: further than a bot gets between two backups."""


def begin_epoch(sql: Sql, now: int, *, above: int = 0) -> None:
    """Begin the next epoch of a store that is a copy: what was done since it was made isn't known here.

    Args:
        above: an epoch that was begun before, in the store that the copy replaces.
    """
    put_meta(sql, "epoch", str(max(above, int(get_meta(sql, "epoch") or 0)) + 1))
    put_meta(sql, "restored_at", str(now))
    put_meta(sql, "epoch_at", str(now))
    # What was under way when the copy was made did not end there by a crash.
    put_meta(sql, "clean", str(now))
    # What the run of the copy noted since is not true of it.
    drop_meta(sql, "run")
    drop_meta(sql, LOG)


def count_run(
    sql: Sql, tables: Tables, notes: AnyNotes, *, machine: str | None, now: int, visit: bool = False
) -> Opening:
    """Count this run in the transaction that is open, and take the mark of a clean stop away until the next.

    A visit leaves the mark as it is: how the bot stopped is for the bot's next run to know.

    An answer counts as given once the process had written it, if the machine has not been started since: the
    kernel sends what was written, however the process ends. After a crash of the machine, or where it
    isn't known of which boot the store is, the last of them are doubted. Rows that were consumed are so for
    the same reason; after a crash of the machine they are back.

    Args:
        machine: names this boot of the machine, if anything does.
    """
    names = ("boot", "unclean", "epoch", "epoch_at", "run")
    boot, unclean, epoch, epoch_at, run = (int(get_meta(sql, name) or 0) for name in names)
    previous, restored = get_meta(sql, "opened_at"), get_meta(sql, "restored_at")
    clean = get_meta(sql, "clean") is not None
    same_boot = machine is not None and get_meta(sql, "machine") == machine
    if same_boot:
        tables.catch_up(notes.answered_left(), notes.consumed_left(run), now)
    elif not clean:
        tables.doubt_last_acknowledgements()
    noted: tuple[int, ...] = ()
    if same_boot and not clean:
        # A visit may have found it before, and has left it for the bot's next run.
        noted = notes.at_work_left() or tuple(map(int, (get_meta(sql, "at_work") or "").split()))
    # Before the first run that counted, nothing was under way that could have been cut.
    unclean = unclean + 1 if boot and not clean else 0
    # Visits count, too: what one run has read, no other may write.
    put_meta(sql, "boot", str(boot + 1))
    if not visit:
        drop_meta(sql, "clean")
        drop_meta(sql, "restored_at")
        put_meta(sql, "opened_at", str(now))
        put_meta(sql, "unclean", str(unclean))
        put_meta(sql, "machine", machine or "")
        drop_meta(sql, "at_work")
        put_meta(sql, "run", str(1 + secrets.randbits(62)))
        tables.note_alive(now)
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
