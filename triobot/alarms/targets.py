"""Brings alarms to people: by a signed HTTP POST (`http_target`), or into a chat of the bot itself.

Each target has a task of its own, so that one that fails or is slow delays nothing else. The task compares
the alarms that are open with those that its target has been told of, which is kept in the store: so each is
told once, through restarts, again by rule while it lasts, and once more when it is over. What was told and
could not be noted before a kill is told again.
"""

from __future__ import annotations

import hashlib
import json
import logging
import shlex
from collections.abc import Callable, Iterator, Sequence
from typing import Final, Literal, Protocol, TypeAlias, cast, final

import trio

from ..base.alarm_kinds import ABOUT, EVENTS, STATES, Alarm, AlarmKind, RaiseAlarm, text_of
from ..base.clock import WallClock
from ..base.frozen import guarded
from ..errors import StoreError
from ..seams.money import AlarmRow
from ..seams.outbox import Outbox
from ..seams.values import reading
from ..seams.writes import PutSetting
from ..store import Store
from ..wire.ids import as_chat_id
from ..wire.operations import SendMessage

log: Final = logging.getLogger("triobot.alarms")

UNTOLD: Final[AlarmKind] = "alarm_untold"
TOLD: Final = "alarms_told "
"""What the names of the settings begin with that say what a target was told; the target's name follows."""

_LOOK: Final = 300.0
_NOT_YET: Final = 1.0
_FIRST_AGAIN: Final = 60.0
_LONGEST_AGAIN: Final = 900.0
_WITHIN: Final = 30.0
_AT_ONCE: Final = 20
_MOST: Final = 1_000
_LONGEST: Final = 2_000
_HOUR: Final = 3_600_000

Happened: TypeAlias = Literal["raised", "repeated", "resolved"]
What: TypeAlias = tuple[AlarmKind, str]


class TargetError(Exception):
    """A target did not take what it was told; the text holds no secret."""


class NotYetError(Exception):
    """A target can't be told before the bot works; nothing is wrong with it."""


@final
@guarded
class AlarmNews:
    """What a target is told.

    Attributes:
        bot: its name.
        text: what is at risk, until when, and what to do; empty when it is over.
        at, first, last: now, and when it was raised first and last, in wall milliseconds.
    """

    happened: Happened
    bot: str
    kind: AlarmKind
    key: str
    text: str
    at: int
    first: int
    last: int
    count: int

    @property
    def id(self) -> str:
        """Return the same for all that is told of one alarm, from its first time to its end."""
        told = f"{self.bot}\n{self.kind}\n{self.key}\n{self.first}"
        return hashlib.blake2b(told.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()

    @property
    def line(self) -> str:
        """Return in one line what happened."""
        key = self.key if self.key.isprintable() else ascii(self.key)
        word = {"raised": "ALARM", "repeated": "ALARM, still", "resolved": "over"}[self.happened]
        return f"[{self.bot}] {word}: {self.kind} {key}"

    @property
    def words(self) -> str:
        """Return all of it for a person."""
        if self.happened == "resolved":
            return self.line
        many = f" (said {self.count} times)" if self.count > 1 else ""
        seen = f"triobot alarms acknowledge --kind {self.kind} --key {shlex.quote(self.key)}"
        return f"{self.line}\n\n{self.text}{many}\n\nOnce you have seen it: {seen}"


class Target(Protocol):
    """Where alarms are told.

    Attributes:
        name: for logs and alarms; no secret.
    """

    @property
    def name(self) -> str:
        """Return what it is called."""
        ...

    async def tell(self, news: AlarmNews) -> None:
        """Tell it; return once it has taken it.

        Raises:
            NotYetError: it is asked again soon, and nobody is told.
            Exception: it has not. Of anything but a `TargetError` only the class is logged.
        """
        ...


@final
class ChatTarget:
    """A chat of the bot itself.

    Args:
        chat: its number.
        outbox: returns where the bot sends; None while it doesn't work.
    """

    name = "chat"

    def __init__(self, chat: int, outbox: Callable[[], Outbox | None]) -> None:
        self._chat = as_chat_id(chat)
        self._outbox = outbox

    async def tell(self, news: AlarmNews) -> None:
        """Send it as a message."""
        if (outbox := self._outbox()) is None:
            raise NotYetError
        words = news.words
        await outbox.perform(SendMessage(self._chat, words[:_LONGEST]))


@final
@guarded
class _Mark:
    """What a target was told of an alarm: of which, since when, and when last."""

    first: int
    told: int


@final
class Courier:
    """Tells one target of all alarms.

    Args:
        bot: the bot's name.
        unstored: the alarms that the store could not take.
        repeat: after so many milliseconds an alarm that lasts is told again; None: never.
        raise_alarm: told when the target fails.
        cover: takes secrets out of a text.

    Attributes:
        works: whether the target took what it was told last.
    """

    def __init__(
        self,
        target: Target,
        bot: str,
        store: Store,
        clock: WallClock,
        *,
        unstored: Callable[[], Sequence[AlarmRow]] = lambda: (),
        repeat: int | None,
        raise_alarm: RaiseAlarm,
        cover: Callable[[str], str] = str,
    ) -> None:
        self.works = True
        self._target = target
        self._bot = bot
        self._store = store
        self._clock = clock
        self._unstored = unstored
        self._repeat = repeat
        self._raise_alarm = raise_alarm
        self._cover = cover
        self._marks: dict[What, _Mark] = {}
        self._news = trio.Event()
        self._setting = f"{TOLD}{target.name}"

    @property
    def name(self) -> str:
        """Return the target's name."""
        return self._target.name

    def wake(self) -> None:
        """Look soon: an alarm was raised, or is over. Never waits."""
        self._news.set()

    async def run(self) -> None:
        """Tell until cancelled."""
        again = _FIRST_AGAIN
        loaded = False
        while True:
            self._news = trio.Event()
            try:
                if not loaded:
                    self._marks = _read(await self._store.setting(self._setting))
                    loaded = True
                more = await self._round()
            except NotYetError:
                await trio.sleep(_NOT_YET)
                continue
            except _FailedError:
                # Not at once when there is news: that would be told in vain, too.
                await trio.sleep(again)
                again = min(2 * again, _LONGEST_AGAIN)
                continue
            except StoreError:
                more = True  # looked at again a minute later
            again = _FIRST_AGAIN
            if more:
                await trio.sleep(_FIRST_AGAIN)
                continue
            with trio.move_on_after(_LOOK):
                await self._news.wait()

    async def _round(self) -> bool:
        """Tell what is due; return whether more of it is, since there was too much for once."""
        try:
            rows: Sequence[AlarmRow] | None = await self._store.alarms.open(limit=_MOST)
        except StoreError:
            rows = None
        due = list(self._due(rows))
        for happened, row in due[:_AT_ONCE]:
            await self._tell(happened, row)
            what: What = (row.kind, row.key)
            if happened == "resolved":
                del self._marks[what]
            else:
                self._marks[what] = _Mark(row.first, self._clock.now())
            await self._keep()
        return len(due) > _AT_ONCE

    def _due(self, stored: Sequence[AlarmRow] | None) -> Iterator[tuple[Happened, AlarmRow]]:
        """Yield what is to be told; nothing is known to be over where the store can't be read."""
        now = self._clock.now()
        recent = [row for row in self._unstored() if row.kind in STATES or now - row.last < _HOUR]
        rows: dict[What, AlarmRow] = {(row.kind, row.key): row for row in (*recent, *(stored or ()))}
        rows.pop((UNTOLD, self.name), None)  # it would be told once it isn't true any more
        for what, mark in list(self._marks.items()):
            if stored is None or what in rows:
                continue
            if what[0] in EVENTS:
                del self._marks[what]  # nothing is over: a person has seen it
                continue
            kind, key = what
            yield "resolved", AlarmRow(kind, key, "", mark.first, now, 0)
        for what, row in rows.items():
            known = self._marks.get(what)
            if known is None or (known.first != row.first and row not in recent):
                yield "raised", row
            elif what[0] in EVENTS:
                if row.last >= known.told + _HOUR:
                    yield "repeated", row
            elif self._repeat is not None and now >= known.told + self._repeat:
                yield "repeated", row

    async def _tell(self, happened: Happened, row: AlarmRow) -> None:
        text = row.text
        if happened != "resolved" and (act := ABOUT[row.kind].act.replace("REF", row.key)) not in text:
            text = f"{text}\n\n{act}"
        news = AlarmNews(
            happened,
            self._bot,
            row.kind,
            self._cover(row.key),
            self._cover(text),
            self._clock.now(),
            row.first,
            row.last,
            row.count,
        )
        try:
            with trio.fail_after(_WITHIN):
                await self._target.tell(news)
        except NotYetError:
            raise
        except Exception as error:
            # Other texts than ours may hold the address, and that a secret.
            why = str(error) if isinstance(error, TargetError) else type(error).__name__
            if self.works:
                self.works = False
                text = f"alarms can't be told by {self.name} ({why}): {text_of(UNTOLD, '')}"
                self._raise_alarm(Alarm(UNTOLD, self.name, text))
            log.debug("an alarm could not be told by %s: %s", self.name, why)
            raise _FailedError from None
        if not self.works:
            self.works = True
            log.warning("alarms are told by %s again", self.name)

    async def _keep(self) -> None:
        marks = [[kind, key, mark.first, mark.told] for (kind, key), mark in self._marks.items()]
        try:
            await self._store.commit(PutSetting(self._setting, json.dumps(marks)))
        except StoreError:
            log.debug("what was told by %s could not be noted", self.name)


class _FailedError(Exception):
    """The target did not take it."""


@reading("what the store keeps of alarms that were told")
def _read(text: str | None) -> dict[What, _Mark]:
    marks = cast("list[tuple[AlarmKind, str, int, int]]", json.loads(text or "[]"))
    # Of kinds that this version doesn't know nothing can be told.
    return {(kind, key): _Mark(first, told) for kind, key, first, told in marks if kind in ABOUT}
