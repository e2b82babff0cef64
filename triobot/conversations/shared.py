"""What the chats of a bot have in common."""

from __future__ import annotations

from typing import final

from .data import Keeping
from .doors.elsewhere import Elsewhere
from .questions.tidying import Answered, Tidying
from .revival.care import Care
from .routes.declarations import Table
from .services import Services
from .timers import Timers
from .workload import CommitQueue, Workload


@final
class Shared:
    """What the chats of a bot have in common.

    Attributes:
        username: the bot's own.
        commits: writes what they leave behind.
        timers: tick conversations when their time has come.
        keeping: reads and writes what chats keep.
        tidying: tidies up messages.
        answers: which questions got their answer a moment ago.
        gave_nothing: the asides that ended with money and gave nothing, as somebody was told.
        care: counts whose code is at work when the program is killed.
        elsewhere: signals to chats, and starts and stops their routes for code.
    """

    care: Care
    elsewhere: Elsewhere

    def __init__(self, services: Services, table: Table, username: str | None = None) -> None:
        self.services, self.table, self.username = services, table, username
        self.commits = CommitQueue(services.store, services.raise_alarm)
        self.work = Workload(self.commits)
        self.timers = Timers(services.clock)
        self.keeping = Keeping(services.store, self.commits, services.texts)
        self.tidying = Tidying(services.outbox, self.work, services.store)
        self.answers = Answered()
        self.gave_nothing: set[str] = set()
