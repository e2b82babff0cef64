"""The HTTP routes that `triobot dev` adds to the platform: the bot's process, a crowd, past conversations.

Under ``/control/``, behind the guard of the control API:

====================================  ===================================================================
``GET  bot``                          state of the bot's process
``POST bot/kill``, ``bot/restart``    kill or restart the process
``GET  crowd``                        state of the crowd
``POST crowd``                        ``chats``, ``groups``, ``hours``, ``crashes``, ``faults``, ``seed``:
                                      random people use a second bot until a promise is broken
``POST crowd/stop``, ``crowd/open``   stop the crowd; start a pass over the conversation that broke a promise
====================================  ===================================================================

Under ``/control/travel/``:

====================================  ===================================================================
``GET  CHAT``                         the chat's conversations: live, parked, crashed and ended ones;
                                      ``can``: further kinds of requests
``POST CHAT/CONVERSATION/open``       replay the journal; 202 with the pass's ``id``; ``travel`` in the
                                      stream shows when the pass is ready
``GET  pass/ID``                      the pass's head; only its id while it runs
``GET  pass/ID/notches``              ``?from=&to=``: at most 256 notches and 1 MB; the first is complete
``GET  pass/ID/path``                 ``?from=&to=``: the lines that ran in each of these turns
``GET  pass/ID/source/NUMBER``        a source as this pass ran it, as text
``GET  pass/ID/page``                 the whole pass as one page that needs no server
``DELETE pass/ID``                    discard the pass
``POST pass/ID/branch``               ``notch``: open a branch there, and return its state; ``asks``: steps
                                      whose recorded results aren't used
``POST CHAT/CONVERSATION/answers``    open a branch in which the current code gets the recorded answers
``GET  held``                         the conversations that hold back new code, and the decisions about them
``POST CHAT/CONVERSATION/held``       ``way``: ``wait`` for the conversation's end, or ``end`` it
``POST pass/ID/test``                 ``notch``: write the conversation up to there as a test, run it
``GET  branch/ID``                    the branch's state
``POST branch/ID/act``                ``name``, ``values``: as ``POST users/<id>/<name>``; ``user``
``POST branch/ID/wait``               ``seconds``
``POST branch/ID/step``               outcome of the first waiting step, or of ``step``: ``returns`` (value);
                                      or ``raises`` (a class's name), ``text``; or ``runs: true``
``POST branch/ID/answers``            ``way``: ``go_on``, ``insist`` or ``leave_out``
``POST branch/ID/take``               replace the conversation by this branch with the recorded answers
``POST branch/ID/test``               write the branch as a test, and run the test
``DELETE branch/ID``                  discard the branch
====================================  ===================================================================

`docs/travel.schema.json` describes the answers. Errors are ``{"error": text}``: 400 for an invalid request,
404 if the requested object doesn't exist or isn't ready, 409 if a branch can't carry out the request, 410 if
a pass or a branch is gone, 503 for any other failure.
"""

from __future__ import annotations

import gzip
from collections.abc import Awaitable, Callable, Collection, Mapping
from inspect import isawaitable
from typing import Final, TypeAlias, cast, final

from quart import Blueprint, Response, request

from ...emulator.control import Asked, BadAskError, as_number, read_body
from ...emulator.exchange import Exchange
from ...emulator.views import json_for_pages
from ...errors import TriobotError
from ...wire.ids import ChatId
from ...wire.platform_side import encode_error
from ...wire.rules import JsonValue
from ..commands.dev_reload import HeldReload
from ..errors import TravelError
from ..supervisor import BotSupervisor
from .crowds import CrowdProcess
from .saved_page import saved_page
from .twins import Twins

_JSON: Final = "application/json"
_NEWEST: Final = 256
_KEPT_FREE: Final = 1_000
"""Number of message ids reserved for a branch that may replace a conversation."""
_CAN: Final = ("branch", "test", "answers")
# Settings of `triobot.testing.Plan`: default, least and greatest value.
_RANGES: Final[Mapping[str, tuple[float, float, float]]] = {
    "chats": (20, 1, 10_000),
    "groups": (0, 0, 1_000),
    "hours": (12, 0.01, 10_000),
    "crashes": (3, 0, 10_000),
    "faults": (3, 0, 100),
}
# Commands in a branch, with their keys.
_TAKES: Final[Mapping[str, tuple[str, ...]]] = {
    "act": ("name", "values", "user"),
    "wait": ("seconds",),
    "step": ("step", "returns", "raises", "text", "runs"),
    "answers": ("way",),
}

Place: TypeAlias = Mapping[str, str]
"""The variable segments of a request's path."""
Answer: TypeAlias = "Callable[[Asked, Place], JsonValue | Awaitable[JsonValue]]"
"""Handler of a request; returns JSON, or an awaitable of JSON."""


@final
class Routes:
    """HTTP routes of one blueprint. Responses are JSON or text, compressed if the client accepts gzip."""

    def __init__(self, name: str, prefix: str) -> None:
        self.blueprint = Blueprint(name, __name__, url_prefix=prefix)

    def add(
        self, method: str, rule: str, answer: Answer, *names: str, status: int = 200, kind: str = _JSON
    ) -> None:
        """Add an HTTP route.

        Args:
            names: keys that a request may have: in the body of a POST, else in the query.
            kind: content type of the response. For JSON, `answer` returns the value to encode; for another
                type, `answer` returns the text of the response.
        """

        async def view(**place: str) -> Response:
            try:
                asked = Asked.read(await read_body()) if method == "POST" else Asked({**request.args})
                asked.only(names)
                value = answer(asked, place)
                if isawaitable(value):
                    value = await value
            except BadAskError as error:
                return _refused(400, str(error))
            except TravelError as error:
                return _refused(410 if error.gone else 409 if error.refused else 404, str(error))
            except (TriobotError, OSError) as error:
                return _refused(503, str(error))
            return _packed(json_for_pages(value) if kind == _JSON else str(value), status, kind)

        self.blueprint.add_url_rule(rule, f"{method} {rule}", view, methods=[method])


def _packed(text: str, status: int, kind: str) -> Response:
    body = text.encode("utf-8", "replace")
    takes = "gzip" in request.headers.get("Accept-Encoding", "")
    response = Response(gzip.compress(body, 5) if takes else body, status, content_type=kind)
    if takes:
        response.headers["Content-Encoding"] = "gzip"
    response.headers["Cache-Control"] = "no-store"
    return response


def _refused(status: int, reason: str) -> Response:
    return Response(encode_error(reason), status, content_type=_JSON)


def _conversation(at: Place) -> int:
    if (number := as_number("conversation", at["conversation"])) < 1:
        raise TravelError(f"there is no conversation {number}")
    return number


def add_looking(routes: Routes, looks: Twins, can: Collection[str] = ()) -> None:
    """Add the read-only HTTP routes.

    Args:
        can: kinds of requests that the page can send in addition to these HTTP routes, such as ``branch``.
    """

    async def conversations(_: Asked, at: Place) -> JsonValue:
        found = cast("Mapping[str, JsonValue]", await looks.conversations(as_number("chat", at["chat"])))
        return {**found, "can": list(can)}

    def begin(_: Asked, at: Place) -> Awaitable[JsonValue]:
        return looks.open(as_number("chat", at["chat"]), _conversation(at))

    def window(asked: Asked) -> tuple[int, int]:
        given = asked.values()
        start = as_number("from", given.get("from", "0"))
        return start, as_number("to", given.get("to", start + _NEWEST))

    text = "text/plain; charset=utf-8"
    routes.add("GET", "/<chat>", conversations)
    routes.add("POST", "/<chat>/<conversation>/open", begin, status=202)
    routes.add("GET", "/pass/<id>", lambda _, at: looks.passed(at["id"]))
    routes.add("DELETE", "/pass/<id>", lambda _, at: looks.close(at["id"]))
    routes.add(
        "GET", "/pass/<id>/notches", lambda asked, at: looks.notches(at["id"], *window(asked)), "from", "to"
    )
    routes.add("GET", "/pass/<id>/path", lambda asked, at: looks.path(at["id"], *window(asked)), "from", "to")
    routes.add(
        "GET",
        "/pass/<id>/source/<number>",
        lambda _, at: looks.source(at["id"], as_number("number", at["number"])),
        kind=text,
    )
    routes.add(
        "GET", "/pass/<id>/page", lambda _, at: saved_page(looks, at["id"]), kind="text/html; charset=utf-8"
    )


def bot_blueprint(bot: BotSupervisor, crowds: CrowdProcess, travels: Twins) -> Blueprint:
    """Return the HTTP routes for the bot's process and for crowds."""

    def order(what: Callable[[], None]) -> Answer:
        def done(_: Asked, at: Place) -> JsonValue:
            what()
            return {}

        return done

    def let_in(asked: Asked, _: Place) -> JsonValue:
        plan: dict[str, JsonValue] = {"seed": asked.integer("seed", 0)}
        for name, (default, least, most) in _RANGES.items():
            plan[name] = asked.number(name, default, least, most)
        crowds.let_in(plan)
        return crowds.crowd()

    routes = Routes("bot", "/control")
    routes.add("GET", "/bot", lambda _, at: bot.view())
    routes.add("POST", "/bot/kill", order(bot.kill))
    routes.add("POST", "/bot/restart", order(bot.restart))
    routes.add("GET", "/crowd", lambda _, at: crowds.crowd())
    routes.add("POST", "/crowd", let_in, "seed", *_RANGES)
    routes.add("POST", "/crowd/stop", order(crowds.send_home))
    routes.add("POST", "/crowd/open", lambda _, at: travels.open_view(*crowds.failing()))
    return routes.blueprint


def past_blueprint(exchange: Exchange, looks: Twins, reload: HeldReload) -> Blueprint:
    """Return the HTTP routes for past conversations."""
    routes = Routes("travel", "/control/travel")
    add_looking(routes, looks, _CAN)

    def group_of(chat_id: int) -> bool | None:
        world = exchange.world
        return world.chat(ChatId(chat_id)).name is not None if world.has_chat(ChatId(chat_id)) else None

    def group_of_pass(id: str) -> bool | None:
        chat_id = looks.passed(id).get("chat_id")
        return group_of(chat_id) if isinstance(chat_id, int) else None

    def branch(asked: Asked, at: Place) -> Awaitable[JsonValue]:
        notch, asks = asked.integer("notch", 0), asked.list_of_texts("asks")
        return looks.branch(at["id"], notch, group=group_of_pass(at["id"]), asks=asks)

    def same(asked: Asked, at: Place) -> Awaitable[JsonValue]:
        asks = asked.list_of_texts("asks")
        chat_id, number = as_number("chat", at["chat"]), _conversation(at)
        there = exchange.world.chat(ChatId(chat_id)).entries if group_of(chat_id) is not None else {}
        texts = [one for one in there.values() if isinstance(one.content, str) and one.author]
        said: list[JsonValue] = [[one.at, one.author, cast("str", one.content)] for one in texts]
        numbers = exchange.world.last_message
        # The branch's messages may later be copied into this chat, so no other message may get these ids.
        exchange.world.number_from(numbers + _KEPT_FREE, exchange.world.invoices)
        return looks.same_answers(
            chat_id, number, group=group_of(chat_id), numbers=numbers, asks=asks, said=said
        )

    def held(_: Asked, at: Place) -> JsonValue:
        return {"held": list(reload.view())}

    async def choose(asked: Asked, at: Place) -> JsonValue:
        way, number = asked.text("way"), _conversation(at)
        await reload.choose(as_number("chat", at["chat"]), number, way)
        return held(asked, at)

    async def take(asked: Asked, at: Place) -> JsonValue:
        await reload.take(at["id"])
        return held(asked, at)

    def act(what: str) -> Answer:
        return lambda asked, at: looks.in_branch(at["id"], what, asked.values())

    def keep(asked: Asked, at: Place) -> Awaitable[JsonValue]:
        return looks.keep(at["id"], asked.integer("notch", 0), group=group_of_pass(at["id"]))

    routes.add("POST", "/pass/<id>/branch", branch, "notch", "asks", status=201)
    routes.add("POST", "/pass/<id>/test", keep, "notch")
    routes.add("POST", "/<chat>/<conversation>/answers", same, "asks", status=201)
    routes.add("GET", "/held", held)
    routes.add("POST", "/<chat>/<conversation>/held", choose, "way")
    routes.add("GET", "/branch/<id>", act("look"))
    routes.add("DELETE", "/branch/<id>", lambda _, at: looks.close_branch(at["id"]))
    routes.add("POST", "/branch/<id>/test", lambda _, at: looks.keep(at["id"], None, group=None))
    routes.add("POST", "/branch/<id>/take", take)
    for what, names in _TAKES.items():
        routes.add("POST", f"/branch/<id>/{what}", act(what), *names)
    return routes.blueprint
