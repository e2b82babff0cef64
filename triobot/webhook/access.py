"""What the server writes to the log: each request without its path, since the path is the secret."""

from __future__ import annotations

import logging
from typing import Final, final

from hypercorn.logging import Logger
from hypercorn.typing import ResponseSummary, WWWScope

from .endpoint import ALIVE_PATH, HIDDEN_PATH, READY_PATH

ACCESS: Final = logging.getLogger("triobot.webhook.access")
SERVER: Final = logging.getLogger("triobot.webhook.server")


@final
class HidingLogger(Logger):
    """Hypercorn's logger with a line of our own for each request.

    Neither the path nor a header is in it: the path holds the secret or a good part of it, and a
    ``Referer`` can repeat it. A request that got no answer is logged with 0.
    """

    async def access(self, request: WWWScope, response: ResponseSummary | None, request_time: float) -> None:
        """Log one request, at level INFO."""
        if not ACCESS.isEnabledFor(logging.INFO):
            return
        method = request["method"] if request["type"] == "http" else "WEBSOCKET"
        path = request["path"] if request["path"] in (ALIVE_PATH, READY_PATH) else HIDDEN_PATH
        status = response["status"] if response is not None else 0
        ACCESS.info("%s %s %d %.1f ms", method[:16], path, status, request_time * 1000)
