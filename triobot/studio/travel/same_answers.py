"""Replays people's recorded answers against new code, in a branch.

Every answer comes at its recorded time, and steps return their recorded results. If the code asks another
question than the recorded one, the replay stops. The developer then answers in the branch, or skips an
answer, and the replay continues. The result can replace the conversation in the bot's store.
"""

from __future__ import annotations

import random
from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, final

import attrs

from ...base.frozen import guarded
from ...cli.exported import comparison_of
from ...conversations.revival.stored import Stored, read_stored, sites_of, why_unfit
from ...conversations.routes.router import table_of
from ...emulator.chats import PlatformChat
from ...emulator.remembering import dump_world, load_world
from ...emulator.views import JsonObject
from ...emulator.world import World
from ...engine import Record, decode_record
from ...engine.records import time_of
from ...errors import ConfigError
from ...exact.verdicts import Comparison, Judge, Side
from ...runtime.bot import Bot
from ...runtime.settings import Settings
from ...seams.journals import ConversationId, ConversationRow, EndConversation, Journal
from ...seams.rooms import is_chat
from ...seams.writes import PutData, Write
from ...wire.ids import ChatId
from ...wire.rules import JsonValue
from .answers import PastAnswer, Said, UnfitAnswerError, answers_in, give, is_sending, late_answers
from .branches import LiveBranch, open_branch, written_down


@final
@guarded
class Replacement:
    """A conversation of new code that can replace the stored conversation.

    Attributes:
        conversation: number of the replaced conversation.
        journal: the new journal; None if the conversation has ended.
        chat: the chat as its people see it; None for a room.
        asks_money: whether the conversation has payments, and so can't replace the stored conversation.
        data: the chat's data.
        at: time at which the conversation continues, in wall milliseconds.
    """

    conversation: ConversationId
    journal: Journal | None
    chat: PlatformChat | None = attrs.field(repr=False)
    asks_money: bool
    data: Mapping[str, str] = attrs.field(repr=False)
    at: int

    def writes(self, chat_id: ChatId) -> list[Write]:
        """Return the writes of one commit that replaces the stored conversation."""
        writes: list[Write] = [EndConversation(self.conversation, self.at)]
        if self.journal is not None:
            writes += written_down(read_stored(self.journal))
        return [*writes, *(PutData(chat_id, key, text) for key, text in self.data.items())]


def replacement_of(body: Mapping[str, Any]) -> Replacement:
    """Convert the JSON that `SameAnswers.replacement` returned.

    Raises:
        UnreadableWorldError: another version of triobot described the conversation.
    """
    row, world, chat_id = body["row"], World(chance=random.Random(0)), body["chat_id"]
    load_world(world, body["platform"])
    journal = None
    if row is not None:
        stored = ConversationRow(**row)
        journal = Journal(stored, stored.position - len(body["records"]), tuple(body["records"]), {})
    chat = None if chat_id is None else world.chat(chat_id)
    return Replacement(body["conversation"], journal, chat, body["asks_money"], body["data"], body["at"])


@final
class SameAnswers:
    """A run of new code that receives the recorded answers; made by `open_same_answers`.

    Attributes:
        branch: the branch of the run. The developer may answer in this branch between recorded answers.
        left: recorded answers that were not repeated yet.
        stopped: why the next answer isn't repeated; None once no answers are left.
    """

    def __init__(
        self, branch: LiveBranch, answers: Sequence[PastAnswer], comparison: Comparison | None
    ) -> None:
        self.branch = branch
        self.left = list(answers)
        self.stopped: str | None = None
        self._comparison = comparison
        self._asked: Record | None = None

    async def go_on(self) -> None:
        """Repeat the remaining answers, until `stopped` is set."""
        self.stopped = None
        while self.left and self.stopped is None:
            await self._give_next(exactly=False)

    async def insist(self) -> None:
        """Repeat the next answer without checking the question, and then call `go_on`."""
        self.stopped = None
        if self.left:
            await self._give_next(exactly=True)
        if self.stopped is None:
            await self.go_on()

    async def leave_out(self) -> None:
        """Skip the next answer, and then call `go_on`."""
        del self.left[:1]
        await self.go_on()

    async def _give_next(self, *, exactly: bool) -> None:
        branch, answer = self.branch, self.left[0]
        # The developer may decide to skip a late answer. Until this decision, no time passes.
        is_open = answer.is_late and not exactly and not await self._asks_the_same(answer)
        if not is_open and (later := answer.at - branch.now) > 0 and not branch.asked:
            await branch.waits(later / 1000)
        if branch.asked:
            self.stopped = f"the step {branch.asked[0].name} waits for you"
        elif branch.ended and answer.is_late:
            del self.left[0]
        elif is_open:
            self.stopped = "what was said next came too late for the conversation as it was"
        elif branch.ended:
            self.stopped = "the conversation is over, and this answer was not given"
        else:
            # A second recorded answer to the same message: the bot replied to the first answer with a hint,
            # so the question is still open.
            again = answer.asked is not None and answer.asked is self._asked
            same = exactly or again or await self._asks_the_same(answer)
            try:
                await give(branch, answer, exactly=same)
            except UnfitAnswerError as error:
                self.stopped = str(error)
            else:
                self._asked = answer.asked
                del self.left[0]

    async def _asks_the_same(self, answer: PastAnswer) -> bool:
        """Whether the branch's last question has the words, or the line, of the answered question.

        A question with other words in another line may be another question. The result can replace a real
        conversation, so the developer must confirm the answer to such a question, with one press.
        """
        journal, then = await self.branch.journal(), answer.asked
        records = [] if journal is None else [decode_record(line) for line in journal.records]
        now = next((one for one in reversed(records) if is_sending(one)), None)
        if now is None or then is None or now[4] == then[4]:
            return now is not None and then is not None
        was, is_now = (Side(0, one[3], one[4], sites_of(one)) for one in (then, now))
        if self._comparison is None or not (was.sites and is_now.sites):
            return False
        return Judge(self._comparison).compare(time_of(then), was, is_now) is None

    async def replacement(self) -> JsonObject:
        """Return the conversation's current state as JSON, for `replacement_of` in another process.

        Raises:
            ConfigError: a step waits for the developer, or another conversation that began in the branch is
                still running.
        """
        branch, past = self.branch, self.branch.past
        if branch.asked:
            raise ConfigError(f"the step {branch.asked[0].name} still waits: say what comes of it")
        own = past.stored.row.id
        others = [one["route"] for one in branch.stands() if one["id"] != own]
        if others:
            raise ConfigError(f"{others[0]} is under way beside it: let it come to its end first")
        journal = None if branch.ended else await branch.journal()
        return {
            "conversation": own,
            "row": None if journal is None else attrs.asdict(journal.row),
            "records": [] if journal is None else list[JsonValue](journal.records),
            "chat_id": past.chat_id if is_chat(past.chat_id) else None,
            "asks_money": await branch.asks_money(),
            "data": dict[str, JsonValue](await branch.data()),
            "at": branch.now,
            "platform": dump_world(branch.exchange.world, (), closed=True),
        }


@asynccontextmanager
async def open_same_answers(
    bot: Bot,
    stored: Stored,
    *,
    code: Sequence[Mapping[str, object]] = (),
    beside: Sequence[Stored] = (),
    group: bool | None = None,
    settings: Settings | None = None,
    numbers: int = 0,
    asks: Collection[str] = (),
    said: Sequence[Said] = (),
) -> AsyncGenerator[SameAnswers]:
    """Run new code from a conversation's start, with the recorded answers, while the block runs.

    Args:
        bot: bot with the new code.
        stored: journal of the old code.
        code: recorded builds and sources, as `journals.code` returns them. The sources identify a question
            even if its words have changed.
        beside, group, settings, asks: as for `open_branch`.
        numbers: the branch's messages get numbers above this number.
        said: people's texts in the chat, as far as the platform still has these texts.

    Raises:
        ConfigError: the new code lacks the conversation's route, or the opening event isn't recorded.
        NondeterminismError: as for `open_branch`.
    """
    route = table_of(bot).named(stored.row.route)
    if route is None:
        raise ConfigError(str(why_unfit(stored.row, table_of(bot))))
    row = attrs.evolve(stored.row, version=str(route.version), parked_because=None)
    fresh = attrs.evolve(stored, row=row)
    given: Any = {"beside": beside, "group": group, "settings": settings, "numbers": numbers, "asks": asks}
    async with open_branch(bot, fresh, 0, **given) as branch:
        own = branch.code
        comparison = comparison_of(own, code) if code and own is not None else None
        answers = [*answers_in(stored, beside), *late_answers(stored, beside, said)]
        same = SameAnswers(branch, sorted(answers, key=lambda one: one.at), comparison)
        await same.go_on()
        yield same
