"""The operator API where the store carries it: the same requests and answers, without a connection.

A store in a database is reached by other machines than the bot's, and so is the bot, through it. The store
knows of methods, targets, statuses and lines, as HTTP has them; what they mean is known here, at both ends.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Final

from ..errors import TriobotError
from ..seams.writes import Hear, Relayed
from .api import OperatorApi, Tell
from .calling import error_in, read_line
from .requests import Request, Told
from .routes import encode_request, request_at, status_of

_log: Final = logging.getLogger("triobot.operator")


async def answer_relayed(api: OperatorApi, relayed: Relayed, hear: Hear) -> None:
    """Answer one request; an error ends the answer, also in its middle."""

    async def tell(told: Told) -> None:
        await hear(HTTPStatus.OK, _line(told))

    try:
        await api.answer(request_at(relayed.method, relayed.target, relayed.body), tell)
    except TriobotError as error:
        await hear(status_of(error), _line({"error": str(error)}))
    except Exception as error:
        # A mistake of ours; its text may hold anything.
        _log.error("a request failed with %s", type(error).__name__)
        _log.debug("a request failed", exc_info=error)
        await hear(HTTPStatus.INTERNAL_SERVER_ERROR, b"")


async def ask_relayed(
    carry: Callable[[Relayed, Hear], Awaitable[bool]], request: Request, tell: Tell
) -> bool:
    """Ask the bot to which this carries requests; False if there is none.

    Args:
        tell: called with each line of the answer.

    Raises:
        ConfigError, StoreError: what the bot answered, or whoever carries it.
        LocalProtocolError: this is nothing that a bot can be asked.

    Cancellation: *ambiguous*: the request may be carried out.
    """

    async def hear(status: int, lines: bytes) -> None:
        if status != HTTPStatus.OK:
            raise error_in(status, lines)
        for line in lines.splitlines():
            await tell(read_line(line))

    return await carry(Relayed(*encode_request(request)), hear)


def _line(told: Told) -> bytes:
    return json.dumps(told, separators=(",", ":")).encode() + b"\n"
