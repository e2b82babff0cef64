"""Replay-check: after each answer, test whether a restart would restore the same conversation.

Used in development and in tests. Whenever a conversation waits, its journal is replayed in a dry run. Both
runs must wait at the same operations and lines, with the same variables. Only a conversation's first
divergence is reported.

A short journal is checked after each answer. A longer journal is checked whenever it has grown by an eighth,
and at its end. So the cost for each record is constant, however long the journal gets.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias, final

import attrs

from ...base.alarm_kinds import Alarm
from ...base.frozen import guarded
from ...engine import Record
from ...engine.records import ENDS, time_of
from ...errors import TriobotError
from ...seams.journals import ConversationRow
from ..chat_actor import ChatActor
from ..conversation import Conversation
from ..revival.stored import Stored, begun_row
from ..routes.routing import kind_of
from ..services import HearRecords
from ..shared import Shared
from .replay_state import ReplayState, difference, standing_of
from .rerun import Divergence, Rerun, dry_services, open_rerun, recorded_ending

log: Final = logging.getLogger("triobot.development")

SHORT: Final = 64
"""Up to this number of records, a journal is checked after each answer."""

RULE: Final = "what may differ between two runs goes through the chat: the docs' page the-one-rule"


@final
@guarded
class Checked:
    """A conversation's journal and the point that the live run has reached.

    Attributes:
        standing: point that the live run has reached.
        group: whether two people were seen in the chat.
        set_by: total milliseconds by which the run's clock was set; None for an ended run.
        judged: number of leading records that another build may have written; the revival compares these
            records with the code.
    """

    stored: Stored
    standing: ReplayState
    group: bool
    set_by: int | None
    judged: int


Tell: TypeAlias = Callable[[str, Divergence], None]


@final
class ReplayCheck:
    """Replay-check of a bot's conversations.

    Args:
        tell: called with the route's name and the divergence. By default, the check logs an error and raises
            an alarm.
    """

    def __init__(self, tell: Tell | None = None) -> None:
        self._tell = tell

    def watch(self, actor: ChatActor, conversation: Conversation, records: Sequence[Record]) -> HearRecords:
        """Check the conversation from now on; return the listener for the conversation's next records.

        Args:
            records: the conversation's records so far.
        """
        return Watched(self, actor, conversation, records).hear

    def diverged(self, shared: Shared, name: str, divergence: Divergence) -> None:
        """Report that a restart would not restore a conversation of the route `name`."""
        shared.work.count("diverged")
        if self._tell is not None:
            self._tell(name, divergence)
            return
        text = f"conversation {name} doesn't repeat itself: {divergence}; {RULE}"
        log.error("%s: %s", divergence.line, text)
        shared.services.raise_alarm(Alarm("replay_diverged", f"{name} {divergence.line}", text))


@final
class Watched:
    """Replay-check of one conversation."""

    def __init__(
        self, check: ReplayCheck, actor: ChatActor, conversation: Conversation, records: Sequence[Record]
    ) -> None:
        self._check, self._shared, self._routing = check, actor.shared, actor.routing
        self._conversation = conversation
        self._records = list(records)
        # If another build wrote these records, the revival compares the records with the code.
        replay = conversation.replay
        self._judged = 0 if replay is None or replay.changed is None else len(records)
        self._next = len(self._records)
        self._looking = False

    def hear(self, record: Record | None) -> None:
        """Add a new record, or check the waiting conversation if `record` is None. A final record starts a
        check, too.
        """
        if record is not None:
            self._records.append(record)
            if record[0] not in ENDS:
                return
            self._next = len(self._records)
        if not self._looking and len(self._records) >= self._next:
            self._looking = True
            # Check later: the conversation's task isn't asleep yet.
            self._shared.work.beside(self._look)

    async def _look(self) -> None:
        while (checked := self._snapshot()) is not None:
            count = len(self._records)
            self._next = count + max(1, count // 8 if count > SHORT else 0)
            if (found := await compare(self._shared, checked)) is not None:
                # No further check begins: only the first divergence is reported.
                self._check.diverged(self._shared, self._conversation.facts.route.name, found)
                return
        self._looking = False

    def _snapshot(self) -> Checked | None:
        """Return the live run's point; None if the run goes on, or if no check is due."""
        conversation = self._conversation
        if not self._records or len(self._records) < self._next:
            return None
        if (last := self._records[-1])[0] in ENDS:
            standing, set_by = ReplayState(ending=recorded_ending(last)), None
        elif (run := conversation.run) is not None and not conversation.dead and run.settled:
            standing, set_by = standing_of(run), run.journal.set_by()
        else:
            return None  # the run goes on: check at its next wait
        stored = Stored(self._row(), tuple(self._records))
        return Checked(stored, standing, self._routing.group, set_by, self._judged)

    def _row(self) -> ConversationRow:
        it, first = self._conversation.facts, self._records[0]
        route = it.route
        kind = kind_of(route, beside=it.beside)
        row = begun_row(it.seq, it.chat_id, first, kind, route.version, it.owner)
        last, many = time_of(self._records[-1]), len(self._records)
        run = it.run_number
        return attrs.evolve(row, key=it.key, run=run, unfinished=False, position=many, updated_at=last)


async def compare(shared: Shared, checked: Checked) -> Divergence | None:
    """Replay a live conversation's journal in this process; return the first divergence, or None."""
    live = shared.services
    dry = dry_services(live.texts, live.resources, checked.stored.row.updated_at, live.charge_hosts)
    try:
        table, stored = shared.table, checked.stored
        group, set_by, judged = checked.group, checked.set_by, checked.judged
        async with open_rerun(dry, table, stored, group=group, set_by=set_by, judged=judged) as rerun:
            return parting(rerun, checked.standing)
    except TriobotError as error:
        # The journal cannot be read.
        return Divergence("0", str(error), checked.standing.line)


def parting(rerun: Rerun, before: ReplayState) -> Divergence | None:
    """Return the first divergence between a dry run and the live run's point `before`, or None."""
    if rerun.divergence is not None:
        return rerun.divergence
    if rerun.changed:
        return rerun.changed[0]
    now = rerun.standing()
    what = difference(before, now) or rerun.beyond()
    if what is None:
        return None
    operation = next((id for id, _, _ in before.operations), "0")
    line = rerun.failed_at or (before.line if before.line != "?" else now.line)
    return Divergence(operation, what, line)
