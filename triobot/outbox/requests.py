"""Requests to the platform, each with a time limit.

Some clients of the platform can begin a request without a task (`seams.BeginsRequests`). Any task may wait
for the result of a begun request, without a cancel scope: the outbox's timer task calls `expire` to end late
requests. All other requests are sent within a cancel scope of the waiting task.
"""

from __future__ import annotations

from typing import Final, final

import trio
from typing_extensions import TypeVar

from ..seams.outbox import BeginsRequests, Begun, Platform
from ..wire.content import Descriptor, File
from ..wire.operations import Operation, Upload
from .delivery import Delivery
from .lanes import NEVER
from .retry import is_never_repeated, unanswered
from .rules import OutboxRules
from .timer import Timer
from .uploads import Uploads

R = TypeVar("R")

# The breaker's token check: an upload that concerns no chat and that no user sees. So only the token can be
# the reason for a refusal (gap 37).
_QUESTION: Final = Upload.of(File.from_bytes(b"triobot\n", "triobot.txt"))


@final
class Requests:
    """The platform's client with time limits, and the deadlines of the requests that were begun.

    Args:
        platform: performs the operations.
        rules: the settings.
        timer: wakes the task that calls `expire`.

    Attributes:
        begins: whether the client can begin requests.
        uploads: the uploads of files, and the descriptors of uploaded files.
    """

    def __init__(self, platform: Platform, rules: OutboxRules, timer: Timer) -> None:
        self.uploads = Uploads(self._upload, remembered=rules.descriptors)
        self._platform = platform
        self._rules = rules
        self._timer = timer
        self._begin = platform.begin if isinstance(platform, BeginsRequests) else None
        self.begins = self._begin is not None
        self._uploading = trio.CapacityLimiter(rules.uploads)
        # Deadlines of the begun requests, the earliest first.
        self._deadlines: dict[Delivery, float] = {}

    # --- begun requests

    def begin(self, delivery: Delivery, operation: Operation[object]) -> Begun[object] | None:
        """Begin a delivery's request; return None if only `perform` can send the operation."""
        if self._begin is None:
            return None
        fresh = is_never_repeated(operation, delivery.on_unknown)
        request = delivery.begun = self._begin(operation, fresh=fresh)
        if request is not None:
            deadline = delivery.began + min(request.within, self._rules.answer_within)
            if not self._deadlines:  # all time limits are equal, so the first deadline is the earliest
                self._timer.mind(deadline)
            self._deadlines[delivery] = deadline
        return request

    def ended(self, delivery: Delivery) -> None:
        """Remove a delivery's request, if one was begun."""
        # A request past its deadline has no entry here. Such a request can still end with an answer, because
        # an answer with an incomplete body is also used.
        self._deadlines.pop(delivery, None)
        delivery.begun = None

    def close(self, delivery: Delivery) -> bool:
        """Close a delivery's request. Return False if the request may have been sent, and so continues."""
        if (request := delivery.begun) is not None:
            if request.may_have_left and delivery in self._deadlines:
                return False
            request.close()
        return True

    def expire(self, now: float) -> None:
        """End the begun requests that are past their deadline."""
        while self._deadlines and self.expires_at <= now:
            delivery = next(iter(self._deadlines))
            del self._deadlines[delivery]
            assert delivery.begun is not None
            delivery.begun.expire(min(delivery.begun.within, self._rules.answer_within))

    @property
    def expires_at(self) -> float:
        """Earliest deadline of the begun requests; `NEVER` without such a request."""
        return next(iter(self._deadlines.values()), NEVER)

    # --- requests with a task

    async def send(self, delivery: Delivery, operation: Operation[object]) -> object:
        """Wait for the result of a delivery's operation; send the operation first, unless its request
        was begun already.
        """
        if delivery.begun is None and is_never_repeated(operation, delivery.on_unknown):
            self.begin(delivery, operation)
        if delivery.begun is not None:
            return await delivery.begun.result()
        is_upload = isinstance(operation, Upload)
        within = self._rules.upload_within if is_upload else self._rules.answer_within
        return await self.perform(operation, within)

    async def ask(self) -> None:
        """Send the breaker's token check, which the platform can refuse only because of the token.

        Then wake the timer task.
        """
        try:
            await self.perform(_QUESTION, self._rules.answer_within)
        finally:
            self._timer.stir()

    async def perform(self, operation: Operation[R], within: float) -> R:
        """Perform an operation; raise DeliveryUnknownError after `within` seconds without an answer."""
        with trio.move_on_after(within):
            return await self._platform.perform(operation)
        raise unanswered(operation, within)

    async def _upload(self, operation: Upload) -> Descriptor:
        async with self._uploading:
            return await self.perform(operation, self._rules.upload_within)
