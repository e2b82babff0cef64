"""Send alarms to people: by a signed HTTP POST (`http_target`), or into a chat of the bot itself.

Each target has its own task, so that a failing or slow target delays no other target. For each target and
alarm, the store contains the time of the last message. The task compares the open alarms with these stored
times. So each alarm is sent once, even over restarts. An open alarm is sent again after the configured time,
and an ended alarm is sent once more. If the process is killed after a message is sent and before its time is
stored, the message is sent again.
"""

from __future__ import annotations

import hashlib
import json
import logging
import shlex
from collections.abc import Callable, Iterator, Sequence
from typing import Final, Literal, Protocol, TypeAlias, cast, final

import attrs
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
"""Prefix of the settings that store the alarms sent to a target; the target's name follows."""

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
    """A target refused an alarm; the text contains no secret."""


class NotYetError(Exception):
    """The target can't send before the bot works. This is no failure."""


@final
@guarded
class AlarmNews:
    """A message to a target about an alarm.

    Attributes:
        bot: the bot's name.
        text: what is at risk, until when, and what to do; empty when the alarm is over.
        at: time of the message, in wall-clock milliseconds.
        first, last: when the alarm was first and last raised, in wall-clock milliseconds.
        count: how often the alarm was raised.
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
        """Id of the alarm, the same in all messages about the alarm until its end."""
        text = f"{self.bot}\n{self.kind}\n{self.key}\n{self.first}"
        return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()

    @property
    def line(self) -> str:
        """The event and the alarm's kind and key, in one line."""
        key = self.key if self.key.isprintable() else ascii(self.key)
        word = {"raised": "ALARM", "repeated": "ALARM, still", "resolved": "over"}[self.happened]
        return f"[{self.bot}] {word}: {self.kind} {key}"

    @property
    def words(self) -> str:
        """The whole message for a person."""
        if self.happened == "resolved":
            return self.line
        many = f" (said {self.count} times)" if self.count > 1 else ""
        seen = f"triobot alarms acknowledge --kind {self.kind} --key {shlex.quote(self.key)}"
        return f"{self.line}\n\n{self.text}{many}\n\nOnce you have seen it: {seen}"


class Target(Protocol):
    """A receiver of alarms.

    Attributes:
        name: the target's name in logs and alarms; contains no secret.
    """

    @property
    def name(self) -> str: ...

    async def tell(self, news: AlarmNews) -> None:
        """Send a message about an alarm; return once the receiver has accepted the message.

        Raises:
            NotYetError: try again soon, and raise no alarm about this target.
            Exception: the receiver did not accept the message. For exceptions other than `TargetError`, only
                the class is logged.
        """
        ...


@final
class ChatTarget:
    """A chat of the bot itself.

    Args:
        chat: chat id.
        outbox: returns the bot's outbox; None while the bot doesn't work.
    """

    name = "chat"

    def __init__(self, chat: int, outbox: Callable[[], Outbox | None]) -> None:
        self._chat = as_chat_id(chat)
        self._outbox = outbox

    async def tell(self, news: AlarmNews) -> None:
        if (outbox := self._outbox()) is None:
            raise NotYetError
        words = news.words
        await outbox.perform(SendMessage(self._chat, words[:_LONGEST]))


@final
@guarded
class _Mark:
    """The stored data about the last message to a target about one alarm.

    Attributes:
        first: when the alarm was first raised. This time distinguishes the alarm from a later alarm of the
            same kind and key.
        sent_at: time of the last message.
    """

    first: int
    sent_at: int


@final
@attrs.define(eq=False)
class Courier:
    """Sends all alarms to one target.

    Args:
        bot: the bot's name.
        unstored: returns the alarms that the store could not save.
        repeat: milliseconds after which an open alarm is sent again; None: never.
        raise_alarm: called when the target fails.
        cover: replaces the secrets in a text.

    Attributes:
        works: whether the target accepted the last message.
    """

    _target: Target
    _bot: str
    _store: Store
    _clock: WallClock
    _unstored: Callable[[], Sequence[AlarmRow]] = attrs.field(
        default=lambda: (), kw_only=True, alias="unstored"
    )
    _repeat: int | None = attrs.field(kw_only=True, alias="repeat")
    _raise_alarm: RaiseAlarm = attrs.field(kw_only=True, alias="raise_alarm")
    _cover: Callable[[str], str] = attrs.field(default=str, kw_only=True, alias="cover")
    works: bool = attrs.field(default=True, init=False)
    _marks: dict[What, _Mark] = attrs.field(factory=dict["What", "_Mark"], init=False)
    _news: trio.Event = attrs.field(factory=trio.Event, init=False)

    @property
    def name(self) -> str:
        return self._target.name

    def wake(self) -> None:
        """Check the alarms soon: an alarm was raised or is over. Never waits."""
        self._news.set()

    async def run(self) -> None:
        """Send alarms until cancelled."""
        again = _FIRST_AGAIN
        loaded = False
        while True:
            self._news = trio.Event()
            try:
                if not loaded:
                    self._marks = _read(await self._store.setting(f"{TOLD}{self.name}"))
                    loaded = True
                more = await self._round()
            except NotYetError:
                await trio.sleep(_NOT_YET)
                continue
            except _FailedError:
                # Wait even if there are new alarms, because the target would fail for the new alarms, too.
                await trio.sleep(again)
                again = min(2 * again, _LONGEST_AGAIN)
                continue
            except StoreError:
                more = True  # the alarms are checked again a minute later
            again = _FIRST_AGAIN
            if more:
                await trio.sleep(_FIRST_AGAIN)
                continue
            with trio.move_on_after(_LOOK):
                await self._news.wait()

    async def _round(self) -> bool:
        """Send the due messages, at most `_AT_ONCE`. Return whether more messages are due."""
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
        """Yield the due messages.

        If the store can't be read (`stored` is None), no alarm is treated as ended.
        """
        now = self._clock.now()
        recent = [row for row in self._unstored() if row.kind in STATES or now - row.last < _HOUR]
        rows: dict[What, AlarmRow] = {(row.kind, row.key): row for row in (*recent, *(stored or ()))}
        rows.pop((UNTOLD, self.name), None)  # a message through a target can't report that this target fails
        for what, mark in list(self._marks.items()):
            if stored is None or what in rows:
                continue
            if what[0] in EVENTS:
                del self._marks[what]  # acknowledged: an event has no end to report
                continue
            kind, key = what
            yield "resolved", AlarmRow(kind, key, "", mark.first, now, 0)
        for what, row in rows.items():
            known = self._marks.get(what)
            if known is None or (known.first != row.first and row not in recent):
                yield "raised", row
            elif what[0] in EVENTS:
                if row.last >= known.sent_at + _HOUR:
                    yield "repeated", row
            elif self._repeat is not None and now >= known.sent_at + self._repeat:
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
            # Texts of other exceptions may contain the address, which may contain a secret.
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
        marks = [[kind, key, mark.first, mark.sent_at] for (kind, key), mark in self._marks.items()]
        try:
            await self._store.commit(PutSetting(f"{TOLD}{self.name}", json.dumps(marks)))
        except StoreError:
            log.debug("what was told by %s could not be noted", self.name)


class _FailedError(Exception):
    """The target did not accept a message."""


@reading("what the store keeps of alarms that were told")
def _read(text: str | None) -> dict[What, _Mark]:
    marks = cast("list[tuple[AlarmKind, str, int, int]]", json.loads(text or "[]"))
    # The stored kind may be from another version of triobot; only known kinds can be described.
    return {(kind, key): _Mark(first, sent_at) for kind, key, first, sent_at in marks if kind in ABOUT}
