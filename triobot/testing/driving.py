"""`drive`: a bot, the emulated platform and people, in one process and in virtual time."""

from __future__ import annotations

import random
import re
import tempfile
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Final, final

import trio
from quart_trio import QuartTrio

from ..base.alarm_kinds import Alarm, AlarmKind
from ..base.authors import only_of
from ..base.secrets import Secret
from ..conversations.inspection.checking import RULE, ReplayCheck
from ..conversations.inspection.rerun import Divergence
from ..conversations.running.lines import authors_traceback
from ..emulator.exchange import Exchange, ShiftedClock
from ..emulator.faults import FaultPlan, Switches
from ..emulator.person import App, AppError, InsideControl, Person
from ..emulator.pusher import PushSettings
from ..emulator.server import make_app, make_exchange
from ..emulator.telling import describe_chat
from ..emulator.views import view_user
from ..emulator.world import ImpossibleActError, World
from ..errors import NondeterminismError
from ..runtime.bot import Bot, apart, given_settings
from ..runtime.settings import Settings
from ..seams.resources import Provided
from ..store.memory import MemoryRows
from ..wire.ids import ChatId, SenderId
from ..wire.platform_side import Body
from .process import DrivenProcess, InsideTransport
from .stubs import StepResults
from .virtual import MORNING, VirtualWallClock, virtual_time

_AUTHORITY: Final = "127.0.0.1:9"
_TOKEN: Final = "token-of-the-driven-bot"
_SECRET: Final = "secret-of-the-driven-bot"
# Maximum number of a chat's lines in a transcript.
_NEWEST: Final = 100

recent: Final[list[str]] = []
"""Transcripts of the worlds that failed since the last clear, for the report of a failed test."""

crashes: Final[list[BaseException]] = []
"""Errors in the bots' own code, since the last clear, that caused tests to fail."""


@final
class DrivenWorld:
    """The emulated platform around one bot; made by `drive`.

    Attributes:
        alarms: alarms that the operator would have received; any alarm left at the end fails the test.
        exchange: the platform itself, with the emulator's `world`.
    """

    def __init__(self, exchange: Exchange, alarms: list[Alarm], process: DrivenProcess) -> None:
        self.alarms = alarms
        self.exchange = exchange
        self._process = process
        self._app = App(InsideControl(exchange))
        self._people: list[Person] = []

    # --- people

    def user(
        self,
        name: str,
        *,
        wallet: int = 0,
        coin: int = 0,
        username: str | None = None,
        phone: str | None = None,
        id: int | None = None,
        chat_id: int | None = None,
        joined: bool = False,
    ) -> Person:
        """Create a person, who is not yet a member of the private chat.

        Args:
            wallet: rials in the wallet.
            coin: amount of the platform's own coin in the wallet.
            id: the person's sender id, which a filter `by` may name; None: the platform generates an id.
            chat_id: id of the private chat; None: the platform generates an id.
            joined: whether the person is a member from the start. If True, the bot gets no event of the join.

        Raises:
            AppError: the name or one of the ids is taken.
        """
        try:
            user = self.exchange.world.add_user(
                name,
                user_id=None if id is None else SenderId(id),
                chat_id=None if chat_id is None else ChatId(chat_id),
                irr=wallet,
                coin=coin,
                username=username,
                phone=phone,
            )
        except ImpossibleActError as error:
            raise AppError(str(error)) from None
        if joined:
            self.exchange.world.chat(user.chat_id).members.add(user.id)
        person = Person(self._app, view_user(user), user.chat_id, 0)
        self._people.append(person)
        return person

    async def group(self, *members: Person, name: str = "group", id: int | None = None) -> ChatId:
        """Create a group, which `members` join one after the other. ``ali.at(chat_id)`` is Ali in the group.

        Args:
            id: id of the chat; None: the platform generates an id.

        Raises:
            AppError: the name or the id is taken.
        """
        chat_id = await self._app.group(name, *members, chat_id=id)
        self._people.extend(member.at(chat_id) for member in members[:1])
        return chat_id

    # --- time and chance

    async def waits(
        self, *, seconds: float = 0, minutes: float = 0, hours: float = 0, days: float = 0
    ) -> None:
        """Let virtual time pass: timeouts expire, and uncaptured money is refunded. No real time passes."""
        await trio.sleep(seconds + 60 * (minutes + 60 * (hours + 24 * days)))
        self.exchange.pass_time(0)

    async def clock_jumps(
        self, *, seconds: float = 0, minutes: float = 0, hours: float = 0, days: float = 0
    ) -> None:
        """Set the clock of the bot's machine forward, or back for a negative time. No other clock changes.

        No time passes. Waits for a duration keep their length. Waits until a time of day follow the new time.
        The bot raises the alarm ``clock_jumped`` when it next reads its clock.
        """
        self._process.clock.set_by(round(1000 * (seconds + 60 * (minutes + 60 * (hours + 24 * days)))))
        await trio.lowlevel.checkpoint()

    @property
    def faults(self) -> FaultPlan:
        """Plan of the platform's faults. A test adds `Fault` and `EventFault` objects to the plan."""
        return self.exchange.plan

    @property
    def switches(self) -> Switches:
        """The platform's choices where the interface leaves a choice; a test may assign other `Switches`."""
        return self.exchange.world.switches

    @switches.setter
    def switches(self, switches: Switches) -> None:
        self.exchange.world.switches = switches

    def refuses(self, *, seconds: float) -> None:
        """Make the platform unreachable for `seconds` from now on."""
        self.exchange.outage.begin(seconds)

    # --- the bot's process

    @property
    def answered(self) -> Mapping[int | None, int]:
        """Number of the bot's answers to events, by HTTP status; None counts unanswered events."""
        return self._process.answered

    async def crashes(self) -> None:
        """Kill the bot's process as ``kill -9`` does, and start it again with the same store.

        As in production, requests that were sent just before the kill may be sent twice.
        """
        await self._process.kill()
        await self._process.start()

    async def restarts(self) -> None:
        """Stop the bot gracefully, as a deploy does, and start it again."""
        await self._process.stop()
        await self._process.start()

    def takes_alarm(self, kind: AlarmKind) -> Alarm:
        """Remove the oldest alarm of this kind from `alarms`, and return it: the test expected this alarm.

        Raises:
            AssertionError: there is no such alarm.
        """
        for alarm in self.alarms:
            if alarm.kind == kind:
                self.alarms.remove(alarm)
                return alarm
        raise AssertionError(f"no alarm {kind} was raised, only {[alarm.kind for alarm in self.alarms]}")

    async def transcript(self) -> str:
        """Return the chats as people see them: the newest messages and other acts of each chat, in order."""
        await trio.lowlevel.checkpoint()
        world, shown = self.exchange.world, list[str]()
        for person in self._people:
            lines = [*describe_chat(world, world.chat(person.chat_id))][-_NEWEST:]
            shown += [f"--- {person.name}, chat {person.chat_id}", *(lines or ["(nothing)"])]
        return "\n".join(shown)


@asynccontextmanager
async def drive(
    bot: Bot,
    *provided: Provided,
    app: QuartTrio | None = None,
    switches: Switches | None = None,
    seed: int = 0,
    attempts: int = 3,
    replay_check: bool = True,
    steps: Mapping[str, Sequence[object]] | None = None,
    start: datetime | None = None,
) -> AsyncGenerator[DrivenWorld]:
    """Run a bot on an emulated platform of its own while the block runs, in virtual time.

    The bot runs as in production, except for the network, the wall clock and a store in memory. No
    environment variable is read; of the bot's own `Settings` only ``username``, ``max_amount``,
    ``retention_days`` and ``keep_ended`` are used. An alarm, for example of a failed conversation or filter,
    fails the test at the end of the block; `takes_alarm` removes an alarm that the test expects. If the bot's
    own code raised errors, the first error is the cause of the test's failure: pytest shows the lines of this
    error, and ``--pdb`` opens there.

    Args:
        provided: values in place of resources; see `provide`.
        app: application into which the bot is mounted; it runs in the same virtual time, and
            ``app.test_client()`` reaches it.
        switches: the platform's behaviour where its interface leaves a choice.
        seed: seed of the platform's random numbers: the same seed gives the same ids.
        attempts: number of times that the platform posts an event if the bot doesn't answer; one attempt each
            second.
        replay_check: whether to replay each conversation's journal after each answer, to check that a restart
            would restore the conversation. The replay repeats the code between operations, so a test that
            counts effects of that code must turn the check off. Both runs iterate sets in the same order, so
            the check misses code that depends on this order.
        steps: outcomes of steps, by the name of the step's function. A step's outcomes are used in order; the
            last outcome is repeated. An outcome that is an exception is raised. Steps without an entry run.
            With `steps`, resources that aren't provided stay closed, and no background task runs.
        start: time of day at which the block begins, with a time zone; None: Saturday, 2 January 2027, 9:00
            UTC.

    Raises:
        ConfigError: time isn't virtual, or the bot can't start.
        NondeterminismError: the replay-check found a replay that differs from its conversation; the error
            names the line.
        AssertionError: alarms were left, or the test waits for ever: every task waits and nothing is due. The
            error lists where each task waits, and for what. A task that wakes regularly hides such a wait.

    Examples:
        >>> async def test_hello(autojump_clock: object) -> None:
        ...     async with drive(bot) as world:
        ...         ali = world.user("Ali")
        ...         await ali.joins()
        ...         await ali.sees("Your name?")
    """
    failure: BaseException | None = None
    with virtual_time() as until_stuck, tempfile.TemporaryDirectory(prefix="triobot-drive-") as folder:
        at = MORNING if start is None else round(start.timestamp() * 1000)
        clock, alarms, late = VirtualWallClock(at), list[Alarm](), list[DrivenProcess]()
        failures, given = list[Exception](), given_settings(bot)

        async def post(body: Body) -> int | None:
            return await late[0].take(body)

        exchange = make_exchange(
            Path(folder),
            post,
            base_url=f"http://{_AUTHORITY}",
            switches=switches,
            # These random numbers needn't be secret. With the same seed, a failing test fails again.
            chance=random.Random(seed),
            # The platform's server has its own clock, which `clock_jumps` doesn't set.
            clock=ShiftedClock(VirtualWallClock(at)),
            push=PushSettings(attempts=attempts),
        )
        door = make_app(exchange, token=_TOKEN, control_token=None, authorities=[_AUTHORITY])
        transport = InsideTransport(door, exchange.outage)
        try:
            async with trio.open_nursery() as nursery:

                def diverged(route: str, divergence: Divergence) -> None:
                    nursery.start_soon(
                        _fail,
                        NondeterminismError(divergence.operation, _words(route, divergence, exchange.world)),
                    )

                process = DrivenProcess(
                    nursery,
                    bot,
                    app,
                    settings=Settings(
                        development=True,
                        token=Secret(_TOKEN),
                        base_url=exchange.world.uploads.base_url,
                        webhook_secret=Secret(_SECRET),
                        store="memory:",
                        username=given.username,
                        max_amount=given.max_amount,
                        retention_days=given.retention_days,
                        keep_ended=given.keep_ended,
                    ),
                    clock=clock,
                    transport=transport,
                    rows=MemoryRows(),
                    on_alarm=alarms.append,
                    on_failure=lambda error, name, chat_id, reference: failures.append(error),
                    provided=provided if steps is None else _with_closed(bot, provided),
                    replays=ReplayCheck(diverged) if replay_check else None,
                    instead=None if steps is None else StepResults(steps),
                )
                late.append(process)
                world = DrivenWorld(exchange, alarms, process)
                nursery.start_soon(until_stuck)
                nursery.start_soon(exchange.pusher.run)
                nursery.start_soon(transport.keep_refusing)
                await process.start()
                try:
                    yield world
                    await process.stop()
                except trio.Cancelled:
                    raise
                except BaseException as error:
                    failure = error
                    recent.append(await world.transcript())
                nursery.cancel_scope.cancel()
        except BaseExceptionGroup as group:
            failure = only_of(group)
    if failure is None and alarms:
        failure = AssertionError(
            "the bot raised alarms that the test did not take (see takes_alarm):\n"
            + "\n".join(f"{alarm.kind}: {alarm.text}" for alarm in alarms)
        )
    if failure is not None:
        # Raise the error outside all nurseries, so that authors read the assertion, and no exception group.
        raise failure from failure.__cause__ or _to_be_shown(failures)


def _with_closed(bot: Bot, provided: Sequence[Provided]) -> Sequence[Provided]:
    """Return `provided`, and a placeholder for each resource that isn't provided."""
    given = {one.resource for one in provided}
    return [*provided, *(one for one in apart(bot)[1] if one.resource not in given)]


def _to_be_shown(failures: Sequence[Exception]) -> BaseException | None:
    """Return the bot's first error. Record the error and its causes, with the author's frames only."""
    if not failures:
        return None
    cause: BaseException | None = failures[0]
    while cause is not None and not any(cause is one for one in crashes):
        cause.with_traceback(authors_traceback(cause.__traceback__))
        crashes.append(cause)
        cause = cause.__cause__
    return failures[0]


async def _fail(error: NondeterminismError) -> None:
    await trio.lowlevel.checkpoint()
    raise error


def _words(route: str, divergence: Divergence, world: World) -> str:
    shown = "\n".join(line for chat in world.chats() for line in describe_chat(world, chat))
    if (forgotten := re.search(r"<coroutine object ([\w.]+)", shown)) is not None:
        return f"{divergence.line}: a text shows a coroutine: write await in front of {forgotten[1]}()"
    return f"conversation {route} at {divergence.line} doesn't repeat itself: {divergence.what}; {RULE}"
