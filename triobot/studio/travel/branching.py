"""The branches in a process that replays journals.

Each branch has a thread, and a clock that stops between acts. An act runs in its branch's thread, and is
answered with the branch's new state. At most three branches are open.
"""

from __future__ import annotations

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
from ...errors import LocalProtocolError, StepError
from ...seams.rooms import is_chat
from ...wire.rules import JsonValue
from ..errors import TravelError
from .branches import MOST, LiveBranch, open_branch
from .given import LoadedBot, PastOrigin
from .keeping import Kill, write_test
from .past import Past, before_failure, look_back, notch_starts
from .same_answers import SameAnswers, open_same_answers
from .views import cut

_SHOWN: Final = 2_000
_LISTED: Final = 500
_LONGEST: Final = 366 * 86_400

There: TypeAlias = tuple[LiveBranch, SameAnswers | None]
Work: TypeAlias = Callable[[LiveBranch, "SameAnswers | None"], Awaitable[Any]]


@final
class _Thread:
    """One branch and its thread."""

    def __init__(self, origin: PastOrigin, opens: Callable[[], AbstractAsyncContextManager[There]]) -> None:
        self.origin = origin
        self._opens = opens
        self._asked: queue.SimpleQueue[tuple[Work, queue.SimpleQueue[Any]] | None] = queue.SimpleQueue()
        threading.Thread(target=self._run, name="branch", daemon=True).start()

    def _run(self) -> None:
        try:
            trio.run(self._live, clock=MockClock(autojump_threshold=0))
        except Exception as error:  # the branch could not be opened
            while (asked := self._asked.get()) is not None:
                asked[1].put(error)

    async def _live(self) -> None:
        async with self._opens() as opened:
            # Time stands still while the loop waits for a thread: see `testing.virtual`.
            while (asked := await trio.to_thread.run_sync(self._asked.get)) is not None:
                work, answer = asked
                try:
                    answer.put(await work(*opened))
                except Exception as error:
                    answer.put(error)

    async def ask(self, work: Work) -> Any:
        """Run `work` in the branch's thread, and return or raise the outcome of `work`.

        Raises: also the error with which the branch failed to open.
        """
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
    """The open branches of one bot. Opens branches, and carries out the developer's acts in branches."""

    def __init__(self, bot: LoadedBot) -> None:
        self._bot = bot
        self._open: dict[str, _Thread] = {}

    async def answer(self, what: str, asked: Mapping[str, Any], origin: PastOrigin | None) -> Any:
        """Carry out the request `what` of the parent process; see `Twins`.

        Args:
            origin: the journals for a new branch or test; None for other requests.

        Returns:
            The branch's state after the request, a test's text, or the replacement of a conversation.

        Raises:
            TravelError: there is no such branch, or three branches are open.
            TriobotError, ValueError, KeyError, TypeError: the request failed, or its arguments are invalid.
        """
        id = asked.get("id", "")
        if origin is not None and what == "test":
            bot, group = self._bot, bool(origin.group)
            past = await look_back(bot.bot, origin.stored, asked["notch"], settings=bot.settings, group=group)
            return self._test(origin, asked["kills"], past)
        if origin is not None:
            return await self._begin(id, origin, asked)
        thread = self._find(id)
        match what:
            case "in branch":
                return await thread.ask(partial(_do, id, asked["what"], asked["given"]))
            case "replacement":
                return await thread.ask(_replacement)
            case "branch test":

                async def write(branch: LiveBranch, _: SameAnswers | None) -> str:
                    await trio.lowlevel.checkpoint()
                    return self._test(thread.origin, asked["kills"], branch.past, branch)

                return await thread.ask(write)
            case _:
                self._open.pop(id).close()
                return None

    async def _begin(self, id: str, origin: PastOrigin, asked: Mapping[str, Any]) -> Any:
        if len(self._open) >= MOST:
            raise TravelError(f"{MOST} branches are open: close one of them first", refused=True)
        self._open[id] = thread = _Thread(origin, partial(self._opened, origin, asked))
        try:
            return await thread.ask(partial(_do, id, "look", {}))
        except BaseException:
            del self._open[id]
            thread.close()
            raise

    @asynccontextmanager
    async def _opened(self, origin: PastOrigin, asked: Mapping[str, Any]) -> AsyncGenerator[There]:
        """Open a branch at ``notch``. Without ``notch``, open a branch that gets the recorded answers."""
        bot, settings, stored = self._bot.bot, self._bot.settings, origin.stored
        around: Any = {"beside": origin.beside, "group": origin.group, "settings": settings}
        around |= {name: asked[name] for name in ("asks", "sent", "numbers", "code") if name in asked}
        if "notch" in asked:
            begins = await before_failure(
                bot, stored, asked["notch"], settings=settings, group=bool(origin.group)
            )
            async with open_branch(bot, stored, begins, **around) as branch:
                yield branch, None
        else:
            said = [tuple(one) for one in asked["said"]]
            async with open_same_answers(bot, stored, said=cast("Any", said), **around) as same:
                yield same.branch, same

    def _test(
        self, origin: PastOrigin, kills: Sequence[Sequence[Any]], past: Past, branch: LiveBranch | None = None
    ) -> str:
        """Return a pytest file that repeats the conversation up to a notch and, if given, the branch.

        Raises:
            ConfigError: the conversation can't be expressed as a test.
        """
        return write_test(
            self._bot.target,
            past,
            branch=branch,
            beside=origin.beside,
            kills=[Kill(int(at), restart=bool(restart)) for at, restart in kills],
            group=origin.group,
        )

    def _find(self, id: str) -> _Thread:
        if (thread := self._open.get(id)) is None:
            raise TravelError("this branch is gone: open it again", gone=True)
        return thread


async def _replacement(_: LiveBranch, same: SameAnswers | None) -> JsonValue:
    if same is None:
        raise LocalProtocolError("branch", "was opened at a notch: nothing takes its chat's place")
    return await same.replacement()


async def _do(
    id: str, what: str, asked: Mapping[str, Any], branch: LiveBranch, same: SameAnswers | None
) -> JsonObject:
    """Carry out one act in a branch, and return the branch's state afterwards."""
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
    return view(id, branch, same)


def view(id: str, branch: LiveBranch, same: SameAnswers | None) -> JsonObject:
    """Return the branch's state as JSON: the chat, the people, the waits of the code, the listed effects."""
    past, world = branch.past, branch.exchange.world
    chat = world.chat(past.chat_id) if is_chat(past.chat_id) else None
    return {
        "id": id,
        "chat_id": past.chat_id,
        "notch": len(notch_starts(past.stored.records)) - 1,
        "at": past.at,
        "now": branch.now,
        "ended": branch.ended,
        "name": None if chat is None else chat.name,
        "people": [view_user(person) for person in branch.people],
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
                "recorded": None if asked.recorded is None else _view_error(asked.recorded),
            }
            for asked in branch.asked
        ],
        "steps": [
            {"name": done.name, "how": done.how, "outcome": _shown(done.outcome)} for done in branch.steps
        ],
        "left": [cast("JsonValue", attrs.asdict(one)) for one in branch.left[-_LISTED:]],
        "failures": [
            {"error": type(broke.error).__name__, "text": broke.text[-_SHOWN * 10 :]}
            for broke in branch.failures
        ],
        "alarms": [{"kind": alarm.kind, "text": alarm.text} for alarm in branch.alarms],
        "answers": None if same is None else {"left": len(same.left), "stopped": same.stopped},
    }


def _view_error(error: Exception) -> JsonObject:
    if isinstance(error, StepError):
        return {"kind": error.kind, "text": cut(error.text)}
    return {"kind": type(error).__name__, "text": cut(str(error))}


def _shown(value: object) -> str:
    try:
        return repr(value)[:_SHOWN]
    except BaseException as error:
        contained(error)  # an author's `__repr__` may fail
        return "?"
