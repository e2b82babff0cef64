"""Test a bot against the emulated platform, in one process and in virtual time.

>>> from triobot.testing import drive
>>> async def test_hello(autojump_clock: object) -> None:
...     async with drive(bot) as world:
...         ali = world.user("Ali")
...         await ali.joins()
...         await ali.sees("Your name?")
...         await ali.says("Ali")
...         await ali.sees("Hello, Ali.")

`drive` runs the bot as in production, on the emulator's platform. The simulated people can do everything that
people can do in the app, and see what the app would show. No socket is opened, an hour passes in a
millisecond, and the test can crash the bot at any point.
"""

from __future__ import annotations

from ..emulator.faults import EventFault as EventFault
from ..emulator.faults import Fault as Fault
from ..emulator.faults import Switches as Switches
from ..emulator.person import NotSeenError as NotSeenError
from ..emulator.person import Person as Person
from ..emulator.person import Seen as Seen
from .driving import DrivenWorld as DrivenWorld
from .driving import drive as drive
from .simulating import Plan as Plan
from .simulating import SimulationResult as SimulationResult
from .simulating import simulate as simulate
from .stubs import recorded as recorded
from .virtual import run as run
