"""Circuit breaker: decides whether a 401 or 403 means a bad token or a chat that the user has left. Pure.

The platform answers both cases with the same status. A refused operation therefore doesn't fail at once. The
operation is *suspected*, and waits in its lane until one of these events shows the cause:

- A request that began after the refusal succeeds. The operation is then tried once more. If the platform
  refuses the operation again, the operation's chat is the cause of the refusals, and the caller gets the
  error.
- The platform refuses requests to several chats within seconds, without a success between the refusals. The
  token is then the cause, and everything is **held**.
- The platform reports that the user left the chat. The chat is then the cause of its refusals, until a
  request to the chat succeeds.
- A few seconds pass without other evidence. Everything is held if a request to the chat succeeded minutes
  ago, or if no request has succeeded in this process. Otherwise the chat is the cause.

The refusal of a broadcast's request is weak evidence, and is called *faint*, if no request to the chat has
succeeded lately: most users of an old audience may have left. An operation with a faint refusal waits like
other refused operations, but its chat isn't counted when several chats are refused within seconds. After a
minute without any success, several faint refusals mean that the token is the cause. Fewer faint refusals mean
that their chats are the cause.

No operation fails while everything is held. Every half minute one queued operation is sent as a probe. While
fewer than `BreakerRules.chats` chats are suspected, an operation of a chat without a refusal is sent as a
probe at once.

A *token check*, a request that concerns no chat, is also sent every half minute. A probe isn't enough: the
queue may be empty, and the user may have left the probe's chat. If the hold has another reason than refusals
in several chats within seconds, the first token check is sent at once.

The first success releases all operations, and the breaker judges each later refusal anew.
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
    """The breaker's limits and delays.

    Attributes:
        chats, within: if the platform refuses requests to `chats` chats in `within` seconds, without a
            success between the refusals, the token is bad.
        patience: seconds for which a suspected chat waits for other evidence.
        faint_patience: seconds for which a faint suspicion waits for other evidence.
        recently: seconds for which a success is evidence that the user hasn't left the chat.
        probe_every: seconds between two probes, and between two token checks, while everything is held.
        remembered: largest number of chats with a success in memory; also the largest number of chats that
            the user left.
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
    """The state in which all operations wait.

    Attributes:
        since: when the hold began.
        sure: whether the token is probably the cause: requests to several chats were refused, no request ever
            succeeded, or the last token check was refused. False if only a few chats were refused, at least
            one of them soon after a success.
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
    """The circuit breaker. A `chat` is any key that identifies one chat."""

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
        """Return whether nothing is held and no chat is suspected."""
        return self.held is None and not self._suspicions

    def succeeded(self, chat: Hashable, began: float, now: float) -> tuple[Hashable, ...]:
        """Register the success of a request to `chat` that began at `began`.

        Returns:
            The chats for which the caller must now retry the refused operations.
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
        """Register that the platform accepted the token: a request succeeded, or was refused for its content.

        Returns:
            The chats for which the caller must now retry the refused operations.
        """
        self._anything_worked = True
        if self.held is not None:
            # If the request was sent before everything was held, its success doesn't show that the token
            # works now.
            if began < self.held.since:
                return ()
            self.held = None
            waiting = tuple(self._suspicions)
            self._suspicions.clear()
            return waiting
        again: list[Hashable] = []
        for other, suspicion in self._suspicions.items():
            # For the token, a success in the same chat is as good evidence as a success in another chat.
            if suspicion.cleared_at is None and began >= suspicion.refused_at:
                suspicion.cleared_at = now
                again.append(other)
        return tuple(again)

    def left(self, chat: Hashable) -> bool:
        """Register that the user left the chat, so that no refusal in this chat counts against the token.

        Returns:
            True if everything was held because of this chat alone, and is now released.
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
        """Register that the platform answered a request to `chat` with 401 or 403.

        Args:
            broadcast: whether the request was part of a broadcast; the user may have left the chat long ago.

        Returns:
            True if the chat is the cause; False if the operation must wait, and doesn't fail yet.
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
        """Decide the cause of each refusal that has waited long enough for other evidence.

        Call `judge` before operations are started, and at the time that `look_again` returned.

        Returns:
            The chats that are the cause of their refused operations.
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
        """Return when the result of `judge`, `may_probe` or `may_ask` can next change by time alone."""
        if self.held is not None:
            probe_at = NEVER if self._probing else self._probe_at
            ask_at = NEVER if self._asking else self._ask_at
            return min((at for at in (probe_at, ask_at) if at > now), default=now)
        if not self._suspicions:
            return NEVER
        return min((self._due(suspicion) for suspicion in self._suspicions.values()), default=NEVER)

    def may_probe(self, now: float) -> bool:
        """Return whether an operation of any chat may be sent as a probe now."""
        return self.held is not None and not self._probing and now >= self._probe_at

    def may_probe_untried(self) -> bool:
        """Return whether an operation of a chat without a refusal may be sent as a probe now."""
        return self.held is not None and not self._probing and len(self._suspicions) < self._rules.chats

    def probe_started(self, now: float) -> None:
        """Register that a probe was sent; only one probe is in flight at a time."""
        self._probing = True
        self._probe_at = now + self._rules.probe_every

    def probe_ended(self) -> None:
        self._probing = False

    def may_ask(self, now: float) -> bool:
        """Return whether a token check, a request that concerns no chat, may be sent now."""
        return self.held is not None and not self._asking and now >= self._ask_at

    def may_ask_first(self) -> bool:
        """Return whether a first token check is useful: no request has succeeded yet, and no token
        check is in flight.
        """
        return self.held is None and not self._anything_worked and not self._asking

    def ask_started(self, now: float) -> None:
        """Register that a token check was sent; only one token check is in flight at a time."""
        self._asking = True
        self._ask_at = now + self._rules.probe_every

    def ask_ended(self, *, denied: bool) -> None:
        """Register the end of a token check; `denied`: the answer was 401 or 403, so the token is refused."""
        self._asking = self._undecided = False
        self._denied = denied
        if denied and self.held is not None:
            self.held = Held(self.held.since, sure=True)

    @property
    def accepts(self) -> bool:
        """Whether the platform accepts requests, as far as is known: nothing is held, and a request has
        succeeded.
        """
        return self.held is None and self._anything_worked

    @property
    def undecided(self) -> bool:
        """Whether all requests are held, and the first token check has no answer yet."""
        return self.held is not None and self._undecided

    @property
    def refused_all(self) -> bool:
        """Whether the token itself is refused.

        The answer to the last token check decides; before the first answer to a token check, the refusals of
        the chats decide. After a token check without a usable answer, the value is False, because all users
        of the refused chats may have left. The next success or refusal of a probe then shows whether the
        token is the cause.
        """
        if self.held is None or self._undecided:
            return False
        return self.held.sure if self._denied is None else self._denied

    def _due(self, suspicion: _Suspicion) -> float:
        # After a success has cleared a chat's suspicion, the refused operation may wait in its lane for any
        # time before the retry. So the suspicion stays for a minute.
        if suspicion.cleared_at is not None:
            return suspicion.cleared_at + 60.0
        patience = self._rules.faint_patience if suspicion.faint else self._rules.patience
        return suspicion.refused_at + patience

    def _hold(self, now: float, *, sure: bool) -> None:
        self.held = Held(now, sure)
        self._probe_at = self._ask_at = now + self._rules.probe_every
        self._undecided, self._denied = False, None
