"""The operator API through a store in a database: the same requests and answers, without a connection to the
bot.

A command on another computer can reach the bot through the database. As in HTTP, a request has a method and a
target, and an answer has a status and lines. The store transports requests and answers; this module encodes
and decodes both at the two ends.
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
from .routes import Answer, Question, encode_question, error_in, question_at, read_line, status_of

_PIECE: Final = 256 * 1024
_log: Final = logging.getLogger("triobot.operator")


async def carry_out(api: OperatorApi, order: OperatorOrder, put: Callable[[bytes], Awaitable[None]]) -> int:
    """Answer an order's request in pieces, and return the HTTP status.

    After a failure, the last line is the error.

    Args:
        put: stores a piece of the answer.
    """
    lines = bytearray()

    async def tell(answer: Answer) -> None:
        lines.extend(_line(answer))
        if len(lines) >= _PIECE:
            await put(bytes(lines))
            lines.clear()

    status: int = HTTPStatus.OK
    try:
        await api.answer(question_at(order.method, order.target, order.body), tell)
    except TriobotError as error:
        status = status_of(error)
        lines += _line({"error": str(error)})
    except Exception as error:
        # Another exception is a bug in triobot. Its text may contain anything, so only its type is logged.
        _log.error("a question failed with %s", type(error).__name__)
        _log.debug("a question failed", exc_info=error)
        return HTTPStatus.INTERNAL_SERVER_ERROR
    await put(bytes(lines))
    return status


async def ask_through(store: str, question: Question, tell: Tell) -> bool:
    """Send a request through the store to the bot that uses the store. Return False if no bot uses the
    store.

    Args:
        tell: called with each line of the answer.

    Raises:
        ConfigError, StoreError: the bot answered with this error, or the request could not be sent.
        LocalProtocolError: `question` is no request of the API.

    Cancellation: *ambiguous*: the bot may act on the request.
    """
    answered = await ask_owner(store, OperatorOrder(*encode_question(question)))
    if answered is None:
        return False
    status, lines = answered
    if status != HTTPStatus.OK:
        raise error_in(status, lines.splitlines()[-1] if lines else b"")
    for line in lines.splitlines():
        await tell(read_line(line))
    return True


def _line(answer: Answer) -> bytes:
    return json.dumps(answer, separators=(",", ":")).encode() + b"\n"
