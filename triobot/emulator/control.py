"""The control API: acts as people do in the app, and makes things go wrong. JSON under ``/control/``.

Every request needs the header ``X-Triobot-Control`` with this run's token; a POST needs
``Content-Type: application/json``. Else the answer is 403 (see `door`). Errors are ``{"error": words}``:
400 for a request that can't be read, 409 for what the app doesn't offer, 503 while the bot is too far behind.

====================================  ===================================================================
``GET  users``                        everybody
``POST users``                        ``name``, ``username``, ``phone``, ``wallet: {"IRR": 0, "coin": 0}``
``POST groups``                       ``name``, ``members: [user ids]``, who join
``POST users/<id>/join``, ``leave``   ``chat``: a group's id, else the service
``POST users/<id>/say``               ``text``
``POST users/<id>/media``             ``kind``, ``filename``, ``base64``, ``caption``, ``duration``
``POST users/<id>/share-contact``     one's own, unless ``phone`` (and ``name``) are given
``POST users/<id>/share-location``    ``lat``, ``long``, ``desc``: all or none
``POST users/<id>/press``             ``label`` of an inline button or of a key, ``message``, ``times``;
                                      ``index`` of the button in the message, where labels are the same
``POST users/<id>/tap``               ``label`` and ``value`` of a key; ``lat``, ``long``, ``desc`` to share
``POST users/<id>/submit``            ``values: {name: text}``, ``message``
``POST users/<id>/pay``               the newest button; or ``label``, ``message``; or ``invoice`` (an id) or
                                      ``newest_invoice: true``; ``code``, ``taken``, ``amount``
``POST users/<id>/top-up``            ``IRR``, ``coin``
``GET  users/<id>/chat``              ``?chat=&after=&wait=``: the chat, and its changes behind ``after``;
                                      waits at most ``wait`` seconds (60) until there is one
``GET  payments``                     every payment button and invoice, with its state
``GET  faults``, ``POST faults``      the fields of `EventFault` if there is ``type``, else of `Fault`
``POST faults/clear``
``POST outage``                       ``seconds``: refuse connections
``POST clock``                        ``seconds``: put the clock forward
``POST switches``                     the fields of `Switches`
``POST forget-uploads``               descriptors of ours are refused from now on
``GET  requests``, ``GET deliveries`` what the bot asked for, what was posted to it
``GET  calls``                        ``?before=&count=``: requests in both directions, with their bodies,
                                      before the one of this number
``GET  history``                      ``?chat=&before=&count=``: a chat's messages, before one of them
``GET  script``                       ``?chat=``: a private chat as a test for `triobot.testing`
``GET  bot``                          how the bot's process is, under ``triobot dev``; else null
``GET  bot/journal``                  ``?conversation=``: what happened in it, record by record
``POST bot/kill``, ``bot/restart``    what may be done to it
``GET  stream``                       everything, and then whatever is new, as server-sent events: see
                                      `page.follower`; or as a WebSocket's texts, an empty one each second
====================================  ===================================================================

Acts take ``chat`` (a group's id) everywhere, and answer ``{"seq": number of the newest change, "events":
[types posted]}``; a press answers ``callback_ids``, too.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Final

import trio
from quart import Blueprint, Response, request

from ..errors import LocalProtocolError
from ..wire.encode import encode_error
from ..wire.ids import SenderId
from ..wire.rules import compact_json
from .asked import Asked, BadAskError, Given
from .blobs import TooLargeError
from .control_person import PersonControl
from .control_platform import PlatformControl
from .exchange import Exchange
from .page.script import Done
from .people import ImpossibleActError, User
from .pusher import PushQueueFullError

LONGEST_BODY: Final = 32 * 1024 * 1024


def control_blueprint(exchange: Exchange) -> Blueprint:
    """The routes of the control API."""
    blueprint = Blueprint("control", __name__, url_prefix="/control")
    people, whole = PersonControl(exchange), PlatformControl(exchange)

    def of_user(name: str, answer: Callable[[User, Asked], Given], method: str = "POST") -> None:
        async def view(user_id: int) -> Response:
            def of_this(asked: Asked) -> Given:
                user = exchange.world.people.get(SenderId(user_id))
                done = Done(exchange.world.seq, user.id, name, asked.values(), dict(user.wallet.items()))
                value = answer(user, asked)
                if method == "POST":
                    exchange.diary.append(done)
                return value

            return await _answered(exchange, of_this)

        blueprint.add_url_rule(f"/users/<int:user_id>/{name}", name, view, methods=[method])

    def of_all(name: str, answer: Callable[[Asked], Given], method: str = "POST") -> None:
        async def view() -> Response:
            return await _answered(exchange, answer)

        blueprint.add_url_rule(f"/{name}", f"{method} {name}", view, methods=[method])

    for name, act in people.routes().items():
        of_user(name, act)
    of_user("chat", people.chat, "GET")
    for name, change in whole.changes().items():
        of_all(name, change)
    for name, look in whole.looks().items():
        of_all(name, look, "GET")
    # Else a misspelt path would fall through to the platform's operations.
    blueprint.add_url_rule("/<path:rest>", view_func=_nowhere, methods=["GET", "POST"])
    return blueprint


async def _nowhere(rest: str) -> Response:
    await trio.lowlevel.checkpoint()
    return _refused(404, "there is no such path in the control API")


async def _answered(exchange: Exchange, answer: Callable[[Asked], Given]) -> Response:
    try:
        asked = Asked({**request.args}) if request.method == "GET" else Asked.read(await _body())
        value = answer(asked)
        if inspect.isawaitable(value):
            value = await value
        if request.method == "POST":
            exchange.tell()
    except ImpossibleActError as error:
        return _refused(409, str(error))
    except (BadAskError, LocalProtocolError) as error:
        return _refused(400, str(error))
    except PushQueueFullError as error:
        return _refused(503, str(error))
    except TooLargeError:
        return _refused(400, "the file is too large")
    return Response(compact_json(value), 200, content_type="application/json")


async def _body() -> bytes:
    body = bytearray()
    async for chunk in request.body:
        body += chunk
        if len(body) > LONGEST_BODY:
            raise BadAskError(f"the body must be at most {LONGEST_BODY} bytes")
    return bytes(body)


def _refused(status: int, reason: str) -> Response:
    return Response(encode_error(reason), status, content_type="application/json")
