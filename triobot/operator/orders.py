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
from ..seams.writes import OperatorOrder
from ..store import ask_owner
from .api import OperatorApi, Tell
from .requests import Request, Told
from .routes import encode_request, error_in, read_line, request_at, status_of

_PIECE: Final = 256 * 1024
_log: Final = logging.getLogger("triobot.operator")


async def carry_out(api: OperatorApi, order: OperatorOrder, put: Callable[[bytes], Awaitable[None]]) -> int:
    """Answer one request in pieces, and return the status; an error is the last line."""
    lines = bytearray()

    async def tell(told: Told) -> None:
        lines.extend(_line(told))
        if len(lines) >= _PIECE:
            await put(bytes(lines))
            lines.clear()

    status: int = HTTPStatus.OK
    try:
        await api.answer(request_at(order.method, order.target, order.body), tell)
    except TriobotError as error:
        status = status_of(error)
        lines += _line({"error": str(error)})
    except Exception as error:
        # A mistake of ours; its text may hold anything.
        _log.error("a request failed with %s", type(error).__name__)
        _log.debug("a request failed", exc_info=error)
        return HTTPStatus.INTERNAL_SERVER_ERROR
    await put(bytes(lines))
    return status


async def ask_through(store: str, request: Request, tell: Tell) -> bool:
    """Ask the bot that has the store at this address, through the store; False if none has it.

    Args:
        tell: called with each line of the answer.

    Raises:
        ConfigError, StoreError: what the bot answered, or that it couldn't be asked.
        LocalProtocolError: this is nothing that a bot can be asked.

    Cancellation: *ambiguous*: the request may be carried out.
    """
    answered = await ask_owner(store, OperatorOrder(*encode_request(request)))
    if answered is None:
        return False
    status, lines = answered
    if status != HTTPStatus.OK:
        raise error_in(status, lines.splitlines()[-1] if lines else b"")
    for line in lines.splitlines():
        await tell(read_line(line))
    return True


def _line(told: Told) -> bytes:
    return json.dumps(told, separators=(",", ":")).encode() + b"\n"
