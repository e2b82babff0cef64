"""What the chats of a bot have in common."""

from __future__ import annotations

from typing import final

import attrs

from .data import Keeping
from .doors.elsewhere import Elsewhere
from .questions.tidying import Answered, Tidying
from .revival.care import Care
from .routes.declarations import Table
from .services import Services
from .timers import Timers
from .workload import Workload


@final
@attrs.define(eq=False)
class Shared:
    """What the chats of a bot have in common.

    Attributes:
        username: the bot's own.
        timers: tick conversations when their time has come.
        keeping: reads and writes what chats keep.
        tidying: tidies up messages.
        answers: which questions got their answer a moment ago.
        care: counts whose code is at work when the program is killed.
        elsewhere: signals to chats, and starts and stops their routes for code.
        gave_nothing: the asides that ended with money and gave nothing, as somebody was told.
    """

    services: Services
    work: Workload
    table: Table
    username: str | None
    timers: Timers
    keeping: Keeping
    tidying: Tidying
    answers: Answered
    care: Care
    elsewhere: Elsewhere
    gave_nothing: set[str] = attrs.field(factory=set[str])
