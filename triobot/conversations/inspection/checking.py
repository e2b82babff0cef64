"""Replay-check: what a restart would find is looked for after each answer, while one develops and tests.

Whenever a conversation has come to rest, its journal is run again beside it, dry; the two must stand at the
same place, with the same variables. The first divergence is told, once a conversation.

Each answer is checked while a journal is short, then each time that it has grown by an eighth, and at the
end: so a conversation pays a constant amount for each record, however long it gets.
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
from ...seams.journals import ConversationRow, Lease
from ..conversation import Conversation
from ..revival.stored import Stored, begun_row
from ..services import HearRecords
from .rerun import Divergence, Rerun, dry_services, open_rerun, recorded_ending
from .standing import Standing, difference, standing_of

log: Final = logging.getLogger("triobot.development")

SHORT: Final = 64
"""Records up to which each answer is checked."""

RULE: Final = "what may differ between two runs goes through the chat: the docs' page the-one-rule"


@final
@guarded
class Checked:
    """A conversation and where it stands.

    Attributes:
        group: two people were seen in its chat.
        set_by: by how much its clock had been set in all, as its run knew.
        judged: so many of its turns were compared when it was brought back.
    """

    stored: Stored
    standing: Standing
    group: bool
    set_by: int | None
    judged: int


Tell: TypeAlias = Callable[[str, Divergence], None]


@final
class ReplayCheck:
    """Runs journals again.

    Args:
        tell: told of each divergence, with the conversation's route; by default it is logged, and an alarm.
    """

    def __init__(self, tell: Tell | None = None) -> None:
        self._tell = tell

    def watch(self, conversation: Conversation, lease: Lease, records: Sequence[Record]) -> HearRecords:
        """Check this conversation from now on; these are its records so far."""
        return Watched(self, conversation, lease, records).hear

    def diverged(self, conversation: Conversation, divergence: Divergence) -> None:
        """Tell of a conversation that a restart would not bring back."""
        conversation.work.count("diverged")
        name = conversation.route.name
        if self._tell is not None:
            self._tell(name, divergence)
            return
        log.error(
            "%s: conversation %s doesn't repeat itself: %s; %s", divergence.line, name, divergence, RULE
        )
        text = f"conversation {name} doesn't repeat itself: {divergence}; {RULE}"
        conversation.services.raise_alarm(Alarm("replay_diverged", f"{name} {divergence.line}", text))


@final
class Watched:
    """One conversation that is checked."""

    def __init__(
        self, check: ReplayCheck, conversation: Conversation, lease: Lease, records: Sequence[Record]
    ) -> None:
        self._check = check
        self._conversation = conversation
        self._lease = lease
        self._records = list(records)
        # These may be another build's: the revival has compared them, or does.
        self._judged = 0 if conversation.changed is None else len(records)
        self._next = len(self._records)
        self._looking = False
        self._diverged = False

    def hear(self, record: Record | None) -> None:
        """Add what was recorded; check soon if the conversation is over with that, or (None) rests."""
        if record is not None:
            self._records.append(record)
            if not self._over:
                return
            self._next = len(self._records)
        self._look_soon()

    @property
    def _over(self) -> bool:
        return bool(self._records) and self._records[-1][0] in ENDS

    def _look_soon(self) -> None:
        if not self._looking and not self._diverged and len(self._records) >= self._next:
            self._looking = True
            # Not at once: its task hasn't gone to sleep yet.
            self._conversation.work.beside(self._look)

    async def _look(self) -> None:
        try:
            while (checked := self._snapshot()) is not None:
                count = len(self._records)
                self._next = count + max(1, count // 8 if count > SHORT else 0)
                if (found := await compare(self._conversation, checked)) is not None:
                    self._diverged = True
                    self._check.diverged(self._conversation, found)
                    return
        finally:
            self._looking = False

    def _snapshot(self) -> Checked | None:
        """Return where the original stands now; None if it works again, or was looked at there before."""
        conversation = self._conversation
        if not self._records or len(self._records) < self._next:
            return None
        if (last := self._records[-1])[0] in ENDS:
            standing, set_by = Standing(ending=recorded_ending(last)), None
        elif not conversation.dead and conversation.run.settled:
            standing, set_by = standing_of(conversation.run), conversation.run.set_by()
        else:
            return None  # it will rest again
        stored = Stored(self._row(), tuple(self._records))
        return Checked(stored, standing, conversation.life.group, set_by, self._judged)

    def _row(self) -> ConversationRow:
        it, route, first = self._conversation, self._conversation.route, self._records[0]
        row = begun_row(it.seq, self._lease, it.life.chat_id, first, it.kind, route.version, it.owner)
        last, many = time_of(self._records[-1]), len(self._records)
        row = attrs.evolve(row, route=route.name, key=it.key, run=it.run_number)
        return attrs.evolve(row, unfinished=False, position=many, updated_at=last)


async def compare(conversation: Conversation, checked: Checked) -> Divergence | None:
    """Run a live conversation's journal again in this process; how it parts, if it does."""
    live = conversation.services
    dry = dry_services(live.texts, live.resources, checked.stored.row.updated_at, live.charge_hosts)
    try:
        table, stored = conversation.shared.table, checked.stored
        group, set_by, judged = checked.group, checked.set_by, checked.judged
        async with open_rerun(dry, table, stored, group=group, set_by=set_by, judged=judged) as rerun:
            return parting(rerun, checked.standing)
    except TriobotError as error:
        # Its journal can't even be read.
        return Divergence("0", str(error), checked.standing.line)


def parting(rerun: Rerun, before: Standing) -> Divergence | None:
    """Return how a dry run parts from where its conversation stood, if it does."""
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
