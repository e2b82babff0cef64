"""Whose fault a 403 is: the token's, which is refused everywhere, or one chat's, whose person left. Pure.

The platform answers both with the same status. So a refused operation is not failed at once: its lane waits
(it is *suspected*) until something else tells.

- A success elsewhere, begun after the refusal: the operation is tried once more; refused again, it is that
  chat's own, and its caller is told.
- Several chats refused within seconds and no success between: the token. Everything is **held**.
- The platform said that this chat was left: its own, until it works again.
- Nothing else happened for a few seconds: held if this chat worked minutes ago or if nothing ever worked
  in this process; else the chat's own.

A broadcast refused by a chat that nobody has spoken with lately tells *faintly*: of an old audience most may
have left, many in a row. Such refusals wait for a success as others do, and hold nothing by their number
alone; only when a minute has brought no success at all, several of them mean the token, and few the chats.

While held nothing is failed. A queued operation goes out as a probe every half minute, and one of a chat
that hasn't been refused at once while the evidence is thin. As often a question goes out that concerns no
chat, at once where time alone has told: nobody may have anything to say, and who left is no witness. The
first success releases, and every refused operation is judged afresh.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Final, final

import attrs

from ..base.frozen import guarded

NEVER: Final = float("inf")


@final
@guarded
class BreakerRules:
    """The constants of the judgement.

    Attributes:
        chats: refused within `within` seconds, with no success between, mean the token.
        patience: seconds for which the first refusals wait for other evidence.
        faint_patience: the same for those that tell faintly.
        recently: a chat that worked within these seconds doesn't leave in silence as a rule.
        probe_every: seconds between probes while held, and between questions.
        remembered: how many chats that worked are remembered.
    """

    chats: int = 5
    within: float = 10.0
    patience: float = 5.0
    faint_patience: float = 60.0
    recently: float = 600.0
    probe_every: float = 30.0
    remembered: int = 4096


@final
@guarded
class Held:
    """Everything waits.

    Attributes:
        since: when it began.
        sure: several chats were refused, or nothing ever worked; else it was one chat that worked before.
    """

    since: float
    sure: bool


@final
@attrs.define(eq=False)
class _Suspicion:
    refused_at: float
    worked: bool
    faint: bool = False
    cleared_at: float | None = None


@final
class Breaker:
    """The judge of refusals. `chat` is any key that stands for one chat."""

    def __init__(self, rules: BreakerRules | None = None) -> None:
        self._rules = rules or BreakerRules()
        self._suspicions: dict[Hashable, _Suspicion] = {}
        self._worked: OrderedDict[Hashable, float] = OrderedDict()
        self._left: OrderedDict[Hashable, None] = OrderedDict()
        self._anything_worked = False
        self._probe_at = self._ask_at = 0.0
        self._probing = self._asking = self._undecided = False
        self._denied: bool | None = None
        self.held: Held | None = None

    def is_untroubled(self) -> bool:
        """Return whether nothing is held, and nobody suspected."""
        return self.held is None and not self._suspicions

    def succeeded(self, chat: Hashable, began: float, now: float) -> tuple[Hashable, ...]:
        """Record that a request to `chat`, begun at `began`, did what it should.

        Returns:
            The chats whose refused operations are to be tried again now.
        """
        if self._left:
            self._left.pop(chat, None)
        self._worked[chat] = now
        self._worked.move_to_end(chat)
        if len(self._worked) > self._rules.remembered:
            self._worked.popitem(last=False)
        if self.held is None:
            if not self._suspicions:
                self._anything_worked = True
                return ()
            own = self._suspicions.get(chat)
            if own is not None and own.cleared_at is not None and began >= own.cleared_at:
                del self._suspicions[chat]
        return self.accepted(began, now)

    def accepted(self, began: float, now: float) -> tuple[Hashable, ...]:
        """Record that the token was good for a request: it succeeded, or was refused for its content.

        Returns: as `succeeded`.
        """
        self._anything_worked = True
        if self.held is not None:
            # A request that left before the refusals says nothing about the token as it is now.
            if began < self.held.since:
                return ()
            self.held = None
            waiting = tuple(self._suspicions)
            self._suspicions.clear()
            return waiting
        again: list[Hashable] = []
        for other, suspicion in self._suspicions.items():
            # Another operation of the same chat tells as much of the token as another chat's does.
            if suspicion.cleared_at is None and began >= suspicion.refused_at:
                suspicion.cleared_at = now
                again.append(other)
        return tuple(again)

    def left(self, chat: Hashable) -> bool:
        """Record that a chat was left: its refusals, before or after, say nothing of the token.

        Returns:
            True if everything was held because of this chat alone, and goes on now.
        """
        self._worked.pop(chat, None)
        self._left[chat] = None
        if len(self._left) > self._rules.remembered:
            self._left.popitem(last=False)
        suspected = self._suspicions.pop(chat, None) is not None
        if self.held is None or self._suspicions or not suspected:
            return False
        self.held = None
        return True

    def refused(self, chat: Hashable, now: float, *, broadcast: bool = False) -> bool:
        """Record that a request to `chat` was answered 401 or 403.

        Args:
            broadcast: the request was part of a broadcast, whose receiver may have left long ago.

        Returns:
            True if that is the chat's own fault; False if its operation must wait, unfailed.
        """
        if chat in self._left:
            return True
        known = self._suspicions.get(chat)
        if known is not None and known.cleared_at is not None and self.held is None:
            del self._suspicions[chat]
            return True
        if known is None:
            worked = now - self._worked.pop(chat, -NEVER) <= self._rules.recently
            self._suspicions[chat] = _Suspicion(now, worked, faint=broadcast and not worked)
        if self.held is None:
            recent = sum(
                suspicion.cleared_at is None
                and not suspicion.faint
                and now - suspicion.refused_at <= self._rules.within
                for suspicion in self._suspicions.values()
            )
            if recent >= self._rules.chats:
                self._hold(now, sure=True)
        elif not self.held.sure and len(self._suspicions) >= self._rules.chats:
            self.held = Held(self.held.since, sure=True)
        return False

    def judge(self, now: float) -> tuple[Hashable, ...]:
        """Let time tell. To be called at `look_again`, before anything is started.

        Returns:
            The chats whose refused operations are their own fault.
        """
        if self.held is not None or not self._suspicions:
            return ()
        late = [chat for chat, suspicion in self._suspicions.items() if self._due(suspicion) <= now]
        doubtful = [self._suspicions[chat] for chat in late if self._suspicions[chat].cleared_at is None]
        faint = sum(one.faint and one.cleared_at is None for one in self._suspicions.values())
        many = faint >= self._rules.chats and any(one.faint for one in doubtful)
        if many or any(one.worked or not self._anything_worked for one in doubtful):
            self._hold(now, sure=many or not self._anything_worked)
            self._ask_at, self._undecided = now, True
            return ()
        for chat in late:
            del self._suspicions[chat]
        return tuple(late)

    def look_again(self, now: float) -> float:
        """Return when `judge`, `may_probe` or `may_ask` may say something new, if nothing else happens."""
        if self.held is not None:
            probe_at = NEVER if self._probing else self._probe_at
            ask_at = NEVER if self._asking else self._ask_at
            return min((at for at in (probe_at, ask_at) if at > now), default=now)
        if not self._suspicions:
            return NEVER
        return min((self._due(suspicion) for suspicion in self._suspicions.values()), default=NEVER)

    def may_probe(self, now: float) -> bool:
        """Return whether any operation may go out as a probe now."""
        return self.held is not None and not self._probing and now >= self._probe_at

    def may_probe_untried(self) -> bool:
        """Return whether an operation of a chat that hasn't been refused may go out as a probe now."""
        return self.held is not None and not self._probing and len(self._suspicions) < self._rules.chats

    def probe_started(self, now: float) -> None:
        """Record that a probe is out; there is one at a time."""
        self._probing = True
        self._probe_at = now + self._rules.probe_every

    def probe_ended(self) -> None:
        """Record that the probe has ended, whatever its outcome."""
        self._probing = False

    def may_ask(self, now: float) -> bool:
        """Return whether a question that concerns no chat may go out now."""
        return self.held is not None and not self._asking and now >= self._ask_at

    def may_ask_first(self) -> bool:
        """Return whether a question would tell what nothing has told so far: whether requests are taken."""
        return self.held is None and not self._anything_worked and not self._asking

    def ask_started(self, now: float) -> None:
        """Record that a question is out; there is one at a time."""
        self._asking = True
        self._ask_at = now + self._rules.probe_every

    def ask_ended(self, *, denied: bool) -> None:
        """Record that the question has ended; `denied`: with 401 or 403, so that the token is refused."""
        self._asking = self._undecided = False
        self._denied = denied
        if denied and self.held is not None:
            self.held = Held(self.held.since, sure=True)

    @property
    def accepts(self) -> bool:
        """Return whether the platform takes requests, as far as known: nothing is held, and one was taken."""
        return self.held is None and self._anything_worked

    @property
    def undecided(self) -> bool:
        """Return whether everything is held only until the first question is answered."""
        return self.held is not None and self._undecided

    @property
    def refused_all(self) -> bool:
        """Return whether the token itself is refused: by the last question, else by what chats were answered.

        After a question without an answer that is False: everyone who was refused may have left. A probe to
        another chat tells then.
        """
        if self.held is None or self._undecided:
            return False
        return self.held.sure if self._denied is None else self._denied

    def _due(self, suspicion: _Suspicion) -> float:
        # A chat that is being tried once more has nothing to wait for; its suspicion is kept for a while in
        # case that attempt has to wait for something else.
        if suspicion.cleared_at is not None:
            return suspicion.cleared_at + 60.0
        patience = self._rules.faint_patience if suspicion.faint else self._rules.patience
        return suspicion.refused_at + patience

    def _hold(self, now: float, *, sure: bool) -> None:
        self.held = Held(now, sure)
        self._probe_at = self._ask_at = now + self._rules.probe_every
        self._undecided, self._denied = False, None
