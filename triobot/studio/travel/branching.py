"""The branches in a process that replays journals.

Each branch has a thread, and a clock that stops between acts. An act runs in its branch's thread, and the
answer is the branch's state afterwards. At most three branches are open.
"""

from __future__ import annotations

import itertools
import queue
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Any, Final, TypeAlias, cast, final

import attrs
import trio
from trio.testing import MockClock

from ...base.authors import contained
from ...emulator.views import JsonObject, view_bill, view_keyboard, view_user
from ...errors import LocalProtocolError, StepError, TriobotError
from ...runtime.bot import Bot
from ...runtime.settings import Settings
from ...seams.rooms import is_chat
from ...wire.rules import JsonValue
from .branches import MOST, LiveBranch, open_branch
from .keeping import Kill, write_test
from .past import before_failure, look_back
from .same_answers import SameAnswers, open_same_answers
from .told import cut
from .twin import BranchedFrom

_SHOWN: Final = 2_000
_LISTED: Final = 500
_LONGEST: Final = 366 * 86_400

There: TypeAlias = tuple[LiveBranch, SameAnswers | None]
Work: TypeAlias = Callable[[LiveBranch, "SameAnswers | None"], Awaitable[Any]]


class NoBranchError(TriobotError):
    """There is no such branch, or too many are open."""


@final
class _Thread:
    """One branch and its thread."""

    def __init__(self, origin: BranchedFrom, opens: Callable[[], AbstractAsyncContextManager[There]]) -> None:
        self.origin = origin
        self._opens = opens
        self._asked: queue.SimpleQueue[tuple[Work, queue.SimpleQueue[Any]] | None] = queue.SimpleQueue()
        self._ready: queue.SimpleQueue[Exception | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="branch", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            trio.run(self._live, clock=MockClock(autojump_threshold=0))
        except Exception as error:  # any error of the bot's start
            self._ready.put(error)

    async def _live(self) -> None:
        async with self._opens() as opened:
            self._ready.put(None)
            # Time stands still while the loop waits for a thread: see `testing.virtual`.
            while (asked := await trio.to_thread.run_sync(self._asked.get)) is not None:
                work, answer = asked
                try:
                    answer.put(await work(*opened))
                except Exception as error:
                    answer.put(error)

    async def wait_ready(self) -> None:
        """Wait until the branch is open.

        Raises: the error that prevented the opening.
        """
        error = await trio.to_thread.run_sync(self._ready.get, abandon_on_cancel=True)
        if error is not None:
            raise error

    async def ask(self, work: Work) -> Any:
        """Run `work` in the branch's thread, and return or raise its outcome."""
        answer: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._asked.put((work, answer))
        value = await trio.to_thread.run_sync(answer.get, abandon_on_cancel=True)
        if isinstance(value, Exception):
            raise value
        return value

    def close(self) -> None:
        """Discard the branch; its thread then ends by itself."""
        self._asked.put(None)


@final
class Branching:
    """Opens branches of one bot, and passes the developer's acts on to them.

    Attributes:
        target: the bot as ``MODULE:BOT``.
    """

    def __init__(self, bot: Bot, target: str, settings: Settings) -> None:
        self.bot, self.target, self.settings = bot, target, settings
        self._numbers = itertools.count(1)
        self._open: dict[str, _Thread] = {}

    async def answer(
        self, what: str, asked: Mapping[str, Any], origin: Callable[[], BranchedFrom]
    ) -> JsonObject | str | None:
        """Carry out the request `what` of the parent process; see `Twins`.

        Args:
            origin: reads the journals for a new branch.

        Raises:
            TriobotError, ValueError, KeyError, TypeError: the request failed, or its arguments are invalid.
        """
        kills = [Kill(int(at), restart=bool(restart)) for at, restart in asked.get("kills", ())]
        match what:
            case "branch":
                given = {name: asked[name] for name in ("asks", "sent")}
                return await self.open(origin(), int(asked["notch"]), given)
            case "same answers":
                given = {name: asked[name] for name in ("numbers", "asks", "code")}
                given["said"] = [tuple(one) for one in asked["said"]]
                return await self.open(origin(), None, given)
            case "in branch":
                return await self.do(asked["id"], asked["what"], asked["given"])
            case "replacement":
                return await self.replacement(asked["id"])
            case "branch test":
                return await self.test_of_branch(asked["id"], kills)
            case "test":
                return await self.test_of_notch(origin(), int(asked["notch"]), kills)
            case _:
                self.close(asked["id"])
                return None

    async def open(self, origin: BranchedFrom, notch: int | None, given: Mapping[str, Any]) -> JsonObject:
        """Open a branch at `notch`; without `notch`, at the conversation's start, with the recorded answers.

        Args:
            given: further arguments for `open_branch` or `open_same_answers`.

        Raises:
            NoBranchError: three branches are open.
        """
        if len(self._open) >= MOST:
            raise NoBranchError(f"{MOST} branches are open: close one of them first")
        thread = _Thread(origin, partial(self._opened, origin, notch, given))
        id = f"b{next(self._numbers)}"
        self._open[id] = thread
        try:
            await thread.wait_ready()
            return await thread.ask(partial(view, id))  # type: ignore[no-any-return]
        except BaseException:
            del self._open[id]
            thread.close()
            raise

    @asynccontextmanager
    async def _opened(
        self, origin: BranchedFrom, notch: int | None, given: Mapping[str, Any]
    ) -> AsyncGenerator[There]:
        bot = self.bot
        around: Any = {"beside": origin.beside, "group": origin.group, "settings": self.settings, **given}
        if notch is not None:
            begins = await before_failure(
                bot, origin.stored, notch, settings=self.settings, group=bool(origin.group)
            )
            async with open_branch(bot, origin.stored, begins, **around) as branch:
                yield branch, None
        else:
            async with open_same_answers(bot, origin.stored, **around) as same:
                yield same.branch, same

    async def do(self, id: str, what: str, asked: Mapping[str, Any]) -> JsonObject:
        """Carry out one act in a branch, and return the branch's state afterwards.

        Raises:
            NoBranchError: there is no branch `id`.
            LocalProtocolError: the act is invalid or impossible.
        """
        thread = self._find(id)
        await thread.ask(partial(_do, what, asked))
        return cast("JsonObject", await thread.ask(partial(view, id)))

    async def test_of_branch(self, id: str, kills: Sequence[Kill] = ()) -> str:
        """Return a pytest file that repeats the branch.

        Raises:
            ConfigError: the branch can't be expressed as a test.
        """
        thread = self._find(id)
        origin = thread.origin

        async def write(branch: LiveBranch, same: SameAnswers | None) -> str:
            await trio.lowlevel.checkpoint()
            return write_test(
                self.target, branch.past, branch=branch, beside=origin.beside, kills=kills, group=origin.group
            )

        return cast("str", await thread.ask(write))

    async def replacement(self, id: str) -> JsonObject:
        """Return the conversation that new code made of the recorded answers; see `Replacement.told`.

        Raises:
            ConfigError: a step or another conversation of the branch is still in progress.
            LocalProtocolError: the branch was not opened from recorded answers.
        """

        async def told(branch: LiveBranch, same: SameAnswers | None) -> JsonObject:
            if same is None:
                raise LocalProtocolError("branch", "was opened at a notch: nothing takes its chat's place")
            return (await same.replacement()).told()

        return cast("JsonObject", await self._find(id).ask(told))

    async def test_of_notch(self, origin: BranchedFrom, notch: int, kills: Sequence[Kill] = ()) -> str:
        """Return a pytest file that repeats the conversation up to a notch.

        Raises:
            ConfigError: the conversation can't be expressed as a test.
        """
        group = bool(origin.group)
        past = await look_back(self.bot, origin.stored, notch, settings=self.settings, group=group)
        return write_test(self.target, past, beside=origin.beside, kills=kills, group=origin.group)

    def close(self, id: str) -> None:
        """Discard a branch; do nothing if it is gone already."""
        if (thread := self._open.pop(id, None)) is not None:
            thread.close()

    def _find(self, id: str) -> _Thread:
        if (thread := self._open.get(id)) is None:
            raise NoBranchError("this branch is gone: open it again")
        return thread


async def _do(what: str, asked: Mapping[str, Any], branch: LiveBranch, same: SameAnswers | None) -> None:
    match what:
        case "look":
            await trio.lowlevel.checkpoint()
        case "act":
            if not isinstance(values := asked.get("values") or {}, dict):
                raise LocalProtocolError("values", "must be an object")
            await branch.act(str(asked.get("name", "")), cast("dict[str, Any]", values), asked.get("user"))
        case "wait":
            seconds = asked.get("seconds")
            if type(seconds) not in (int, float) or not 0 <= cast("float", seconds) <= _LONGEST:
                raise LocalProtocolError("seconds", f"must be a number from 0 to {_LONGEST}")
            await branch.waits(cast("float", seconds))
        case "step" if "returns" in asked:
            await branch.returns(asked["returns"], asked.get("step"))
        case "step" if asked.get("raises"):
            await branch.raises(str(asked["raises"]), str(asked.get("text") or ""), asked.get("step"))
        case "step" if asked.get("runs"):
            await branch.runs(asked.get("step"))
        case "answers" if same is not None:
            ways = {"go_on": same.go_on, "insist": same.insist, "leave_out": same.leave_out}
            if (way := ways.get(str(asked.get("way")))) is None:
                raise LocalProtocolError("way", f"must be one of {', '.join(ways)}")
            await way()
        case _:
            raise LocalProtocolError("branch", f"nobody knows what {what} is here")


async def view(id: str, branch: LiveBranch, same: SameAnswers | None) -> JsonObject:
    """Return the branch's state: chat, people, waiting lines of code, and effects that would have left."""
    past, world = branch.past, branch.exchange.world
    chat = world.chat(past.chat_id) if is_chat(past.chat_id) else None
    return {
        "id": id,
        "conversation": past.stored.row.id,
        "chat_id": past.chat_id,
        "at": past.at,
        "now": branch.now,
        "ended": branch.ended,
        "name": None if chat is None else chat.name,
        "people": [view_user(world.people.get(person.id)) for person in branch.people],
        "members": [] if chat is None else list[JsonValue](sorted(chat.members)),
        "chat": list[JsonValue](branch.chat()[-_LISTED:]),
        "reply_keyboard": None if chat is None else view_keyboard(chat.reply_keyboard),
        "bills": [view_bill(bill, branch.now) for bill in world.bills if bill.chat_id == past.chat_id],
        "stands": cast("JsonValue", list(branch.stands())),
        "asked": [
            {
                "step": asked.number,
                "name": asked.name,
                "args": list(asked.args),
                "conversation": asked.conversation,
                "recorded": None if asked.recorded is None else _told_error(asked.recorded),
            }
            for asked in branch.asked
        ],
        "steps": [
            {"name": done.name, "how": done.how, "outcome": _shown(done.outcome)} for done in branch.steps
        ],
        "left": [cast("JsonValue", attrs.asdict(one)) for one in branch.left[-_LISTED:]],
        "failures": [
            {
                "error": type(broke.error).__name__,
                "route": broke.route,
                "conversation": broke.conversation,
                "text": broke.text[-_SHOWN * 10 :],
            }
            for broke in branch.failures
        ],
        "alarms": [{"kind": alarm.kind, "text": alarm.text} for alarm in branch.alarms],
        "data": dict[str, JsonValue](await branch.data()),
        "answers": None if same is None else {"left": len(same.left), "stopped": same.stopped},
    }


def _told_error(error: Exception) -> JsonObject:
    if isinstance(error, StepError):
        return {"kind": error.kind, "text": cut(error.text)}
    return {"kind": type(error).__name__, "text": cut(str(error))}


def _shown(value: object) -> str:
    try:
        return repr(value)[:_SHOWN]
    except BaseException as error:
        contained(error)  # an author's `__repr__` may fail
        return "?"
