"""State that all chats of a bot share."""

from __future__ import annotations

from typing import final

from .calls.chat_calls import ChatCalls
from .data import Keeping
from .questions.cleanup import Answered, Cleanup
from .revival.crash_counts import CrashCounts
from .routes.declarations import Table
from .services import Services
from .timers import Timers
from .workload import CommitQueue, Workload


@final
class Shared:
    """State that all chats of a bot share.

    Attributes:
        username: the bot's own username.
        commits: queue of the conversations' writes.
        timers: deadlines of the conversations in memory.
        keeping: access to the data of all chats, whether in memory or not.
        cleanup: cleanup of messages, such as the buttons of questions that are over.
        answers: recently answered questions, to recognize double clicks.
        gave_nothing: names of asides that settled a payment but gave nothing; each name is reported once.
        crashes: number of the program's crashes during each conversation's code.
        chat_calls: entry for signals to other chats, and for starts and stops of their routes.
    """

    crashes: CrashCounts
    chat_calls: ChatCalls

    def __init__(self, services: Services, table: Table, username: str | None = None) -> None:
        self.services, self.table, self.username = services, table, username
        self.commits = CommitQueue(services.store, services.raise_alarm)
        self.work = Workload(self.commits, services.clock)
        self.timers = Timers(services.clock)
        self.keeping = Keeping(services.store, self.commits, services.texts)
        self.cleanup = Cleanup(services.outbox, self.work, services.store)
        self.answers = Answered()
        self.gave_nothing: set[str] = set()
