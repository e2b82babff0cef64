"""`drive`: a bot, the platform around it, and people, in one process and in virtual time."""

from __future__ import annotations

import random
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
from ..emulator.telling import told_chat
from ..emulator.views import view_user
from ..emulator.world import ImpossibleActError
from ..errors import NondeterminismError
from ..runtime.bot import Bot, apart
from ..runtime.settings import Settings
from ..seams.resources import Provided
from ..store import MemoryRows
from ..wire.encode import Body
from ..wire.ids import ChatId, SenderId
from .process import DrivenProcess, InsideTransport
from .stubs import StepResults
from .virtual import MORNING, VirtualWallClock, virtual_time

_AUTHORITY: Final = "127.0.0.1:9"
_TOKEN: Final = "token-of-the-driven-bot"
_SECRET: Final = "secret-of-the-driven-bot"
# Of a chat, in a transcript.
_NEWEST: Final = 100

recent: Final[list[str]] = []
"""The chats of the worlds that ended in a failure since this was cleared; for the report of a failed test."""

crashes: Final[list[BaseException]] = []
"""The errors of bots that are the causes of failures of tests since this was cleared."""


@final
class DrivenWorld:
    """The platform around one bot; made by `drive`.

    Attributes:
        alarms: what the operator would have been told; whatever is left at the end fails the test.
        exchange: the platform itself; through it, the emulator's `world`.
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
        """Make a person who hasn't joined yet.

        Args:
            wallet: rials.
            coin: the platform's own coin.
            id: the sender's id, such as the one that a filter `by` knows; None: made up.
            chat_id: of the private chat; None: made up.
            joined: they have joined long ago, and no event tells of it.

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
        """Make a group; its members join one after the other. ``ali.at(chat_id)`` is Ali in it.

        Args:
            id: of the chat; None: made up.

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
        """Let time pass: timeouts end, money that was not captured goes back. It takes no real time."""
        await trio.sleep(seconds + 60 * (minutes + 60 * (hours + 24 * days)))
        self.exchange.pass_time(0)

    async def clock_jumps(
        self, *, seconds: float = 0, minutes: float = 0, hours: float = 0, days: float = 0
    ) -> None:
        """Set the clock of the bot's machine forward, or back if negative; no time passes, nor elsewhere.

        Timeouts last as long as before; what waits for a time of day goes by the new one. An alarm,
        ``clock_jumped``, tells of it, once the bot looks at its clock.
        """
        self._process.clock.set_by(round(1000 * (seconds + 60 * (minutes + 60 * (hours + 24 * days)))))
        await trio.lowlevel.checkpoint()

    @property
    def faults(self) -> FaultPlan:
        """Return what goes wrong on the platform's side; add a `Fault` or an `EventFault`."""
        return self.exchange.plan

    @property
    def switches(self) -> Switches:
        """Return how the platform behaves where its interface is silent; may be replaced."""
        return self.exchange.world.switches

    @switches.setter
    def switches(self, switches: Switches) -> None:
        self.exchange.world.switches = switches

    def refuses(self, *, seconds: float) -> None:
        """Make the platform unreachable for so long, from now on."""
        self.exchange.outage.begin(seconds)

    # --- the bot's process

    @property
    def answered(self) -> Mapping[int | None, int]:
        """Count the bot's answers to events by their status; None: no process was up to answer."""
        return self._process.answered

    async def crashes(self) -> None:
        """Kill the bot's process as ``kill -9`` does, and start it again on what the store holds.

        As in life, what it had only just sent may come twice.
        """
        await self._process.kill()
        await self._process.start()

    async def restarts(self) -> None:
        """Stop the bot as a deploy does, and start it again."""
        await self._process.stop()
        await self._process.start()

    def takes_alarm(self, kind: AlarmKind) -> Alarm:
        """Take the oldest alarm of a kind off the list: the test expected it.

        Raises:
            AssertionError: there is none.
        """
        for alarm in self.alarms:
            if alarm.kind == kind:
                self.alarms.remove(alarm)
                return alarm
        raise AssertionError(f"no alarm {kind} was raised, only {[alarm.kind for alarm in self.alarms]}")

    async def transcript(self) -> str:
        """Return every chat so far, as its people see it: messages, and what was done between them."""
        await trio.lowlevel.checkpoint()
        world, shown = self.exchange.world, list[str]()
        for person in self._people:
            lines = [*told_chat(world, world.chat(person.chat_id))][-_NEWEST:]
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

    The bot runs as in production, but for the network, the time of day and a store in memory. No setting of
    the environment is read. An alarm that the test doesn't take, such as that of a conversation or a filter
    that failed, fails the test at the end of the block. What fails the test is raised from the first error of
    the bot's own code, if there was one: pytest shows its lines, and ``--pdb`` opens there.

    Args:
        provided: values in place of resources; see `provide`.
        app: the application that the bot is mounted into; it is served in the same virtual time, and
            ``app.test_client()`` reaches it.
        switches: how the platform behaves where its interface is silent.
        seed: of the platform's chance: the same seed, the same ids.
        attempts: how often the platform posts an event, a second apart, that the bot doesn't answer.
        replay_check: run each conversation's journal again after each answer, to see whether a restart would
            bring it back. What the code does between its operations is done once more by that: a test that
            counts such things turns it off. The order of a set is the same in both runs.
        steps: what steps return in place of being run, by the name of their function, one after the other,
            the last again and again; an exception is raised. A step that isn't named runs. Resources that
            are not provided stay closed, and no background task runs.
        start: the aware time at which the block begins; None: Saturday, 2 January 2027, 9:00 UTC.

    Raises:
        ConfigError: time isn't virtual; or the bot can't start.
        NondeterminismError: a conversation doesn't repeat itself: the replay-check; names the line.
        AssertionError: alarms were left; or what the test waits for can't come: every task waits and nothing
            is due, or time has jumped a hundred thousand times while the test's own task waited without a
            deadline, and no request went to or from the platform. Says which task waits where, and for what.
            A test that polls, or a bot that goes on sending, keeps that from being found out.

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
        failures: list[Exception] = []

        async def post(body: Body) -> int | None:
            return await late[0].take(body)

        exchange = make_exchange(
            Path(folder),
            post,
            base_url=f"http://{_AUTHORITY}",
            switches=switches,
            # Play money and play ids: what matters is that a failing test fails again.
            chance=random.Random(seed),
            # The platform's machine has a clock of its own.
            clock=ShiftedClock(VirtualWallClock(at)),
            push=PushSettings(attempts=attempts),
        )
        door = make_app(exchange, token=_TOKEN, control_token=None, authorities=[_AUTHORITY])
        transport = InsideTransport(door, exchange.outage)
        try:
            async with trio.open_nursery() as nursery:

                def diverged(route: str, divergence: Divergence) -> None:
                    nursery.start_soon(
                        _fail, NondeterminismError(divergence.operation, _words(route, divergence))
                    )

                process = DrivenProcess(
                    nursery,
                    bot,
                    app,
                    settings=Settings(
                        development=True,
                        token=Secret(_TOKEN),
                        base_url=exchange.world.base_url,
                        webhook_secret=Secret(_SECRET),
                        store="memory:",
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
                nursery.start_soon(until_stuck, lambda: exchange.traffic.version)
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
        # Outside of all nurseries: a test's author wants to read the assertion, not a tree of groups.
        raise failure from failure.__cause__ or _to_be_shown(failures)


def _with_closed(bot: Bot, provided: Sequence[Provided]) -> Sequence[Provided]:
    """Return a stand-in for each resource that isn't provided."""
    given = {one.resource for one in provided}
    return [*provided, *(one for one in apart(bot)[1] if one.resource not in given)]


def _to_be_shown(failures: Sequence[Exception]) -> BaseException | None:
    """Return the first error of the bot, with its author's frames alone; None if it had none."""
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


def _words(route: str, divergence: Divergence) -> str:
    return f"conversation {route} at {divergence.line} doesn't repeat itself: {divergence.what}; {RULE}"
