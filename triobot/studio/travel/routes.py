"""The routes that `triobot dev` adds to the platform: its bot's process, a crowd, and past conversations.

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
                                      ``can``: the abilities of these routes besides reading
``POST CHAT/CONVERSATION/open``       replay the journal; 202 with the pass's ``id``; ``travel`` in the
                                      stream shows when the pass is ready
``GET  pass/ID``                      the pass's head; only its id while it runs
``GET  pass/ID/notches``              ``?from=&to=``: at most 256 notches and 1 MB; the first is complete
``GET  pass/ID/path``                 ``?from=&to=``: the lines that ran in each of these turns
``GET  pass/ID/source/NUMBER``        a source as this pass ran it, as text
``GET  pass/ID/value``                ``?notch=&branch=&frame=&name=``: one variable, up to 64 kB
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
404 if there is nothing to return, 409 if a branch can't carry out the request, 410 if a pass or a branch is
gone.
"""

from __future__ import annotations

import gzip
from collections.abc import Awaitable, Callable, Collection, Mapping
from functools import partial
from typing import Final, cast

import trio
from quart import Blueprint, Response, request

from ...emulator.control import Asked, BadAskError, as_number, read_body
from ...emulator.exchange import Exchange
from ...emulator.views import json_for_pages
from ...errors import TriobotError
from ...wire.encode import encode_error
from ...wire.ids import ChatId
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


def _conversation(text: str) -> int:
    if (number := as_number("conversation", text)) < 1:
        raise TravelError(f"there is no conversation {number}")
    return number


async def _asked(*names: str) -> Asked:
    """Read a request's body; raise `BadAskError` for any other keys."""
    given = Asked.read(await read_body())
    given.only(names)
    return given


def add_looking(blueprint: Blueprint, looks: Twins, can: Collection[str] = ()) -> None:
    """Add the read-only routes.

    Args:
        can: names of the blueprint's further abilities.
    """

    async def conversations(chat: str) -> Response:
        async def listed() -> JsonValue:
            told = cast("Mapping[str, JsonValue]", await looks.conversations(as_number("chat", chat)))
            return {**told, "can": list(can)}

        return await told(listed)

    async def begin(chat: str, conversation: str) -> Response:
        async def opened() -> JsonValue:
            await _asked()
            return await looks.open(as_number("chat", chat), _conversation(conversation))

        return await told(opened, 202)

    async def passed(id: str) -> Response:
        async def head() -> JsonValue:
            await trio.lowlevel.checkpoint()
            return looks.passed(id)

        return await told(head)

    def window() -> tuple[int, int]:
        Asked({**request.args}).only(("from", "to"))
        start = as_number("from", request.args.get("from", "0"))
        return start, as_number("to", request.args.get("to", start + _NEWEST))

    async def notches(id: str) -> Response:
        async def read() -> bytes:
            wanted = window()
            return await looks.notches(id, *wanted)

        return await told(read)

    async def path(id: str) -> Response:
        async def read() -> bytes:
            wanted = window()
            return await looks.path(id, *wanted)

        return await told(read)

    async def source(id: str, number: int) -> Response:
        return await told(lambda: looks.source(id, number), kind="text/plain; charset=utf-8")

    async def value(id: str) -> Response:
        async def one() -> JsonValue:
            given = request.args
            Asked({**given}).only(("notch", "branch", "frame", "name"))
            notch, frame = (as_number(name, given.get(name, "0")) for name in ("notch", "frame"))
            return await looks.value(id, notch, given.get("branch", ""), frame, given.get("name", ""))

        return await told(one)

    async def page(id: str) -> Response:
        async def saved() -> bytes:
            return gzip.compress((await saved_page(looks, id)).encode(), 5)

        return await told(saved, kind="text/html; charset=utf-8")

    async def close(id: str) -> Response:
        return await told(lambda: looks.close(id))

    for rule, method, view in (
        ("/<chat>", "GET", conversations),
        ("/<chat>/<conversation>/open", "POST", begin),
        ("/pass/<id>", "GET", passed),
        ("/pass/<id>", "DELETE", close),
        ("/pass/<id>/notches", "GET", notches),
        ("/pass/<id>/path", "GET", path),
        ("/pass/<id>/source/<int:number>", "GET", source),
        ("/pass/<id>/value", "GET", value),
        ("/pass/<id>/page", "GET", page),
    ):
        blueprint.add_url_rule(rule, f"{method} {rule}", view, methods=[method])


def bot_blueprint(bot: BotSupervisor, crowds: CrowdProcess, travels: Twins) -> Blueprint:
    """Return the routes for the bot's process and for crowds."""
    blueprint = Blueprint("bot", __name__, url_prefix="/control")

    def take(_: Asked, what: Callable[[], None]) -> JsonValue:
        what()
        return {}

    def let_in(asked: Asked) -> JsonValue:
        plan: dict[str, JsonValue] = {"seed": asked.integer("seed", 0)}
        for name, (default, least, most) in _RANGES.items():
            plan[name] = asked.number(name, default, least, most)
        crowds.let_in(plan)
        return crowds.crowd()

    def route(method: str, path: str, answer: Callable[[Asked], JsonValue], *names: str) -> None:
        async def view() -> Response:
            async def answered() -> JsonValue:
                return answer(await _asked(*names) if method == "POST" else Asked({}))

            return await told(answered)

        blueprint.add_url_rule(path, f"{method} {path}", view, methods=[method])

    route("GET", "/bot", lambda _: bot.view())
    route("POST", "/bot/kill", partial(take, what=bot.kill))
    route("POST", "/bot/restart", partial(take, what=bot.restart))
    route("GET", "/crowd", lambda _: crowds.crowd())
    route("POST", "/crowd", let_in, "seed", *_RANGES)
    route("POST", "/crowd/stop", partial(take, what=crowds.send_home))
    route("POST", "/crowd/open", lambda _: travels.open_told(*crowds.failing()))
    return blueprint


def past_blueprint(exchange: Exchange, looks: Twins, reload: HeldReload) -> Blueprint:
    """Return the routes for past conversations."""
    blueprint = Blueprint("travel", __name__, url_prefix="/control/travel")
    add_looking(blueprint, looks, _CAN)

    def group_of(chat_id: int) -> bool | None:
        world = exchange.world
        return world.chat(ChatId(chat_id)).name is not None if world.has_chat(ChatId(chat_id)) else None

    def group_of_pass(id: str) -> bool | None:
        chat_id = looks.passed(id).get("chat_id")
        return group_of(chat_id) if isinstance(chat_id, int) else None

    async def branch(id: str) -> Response:
        async def opened() -> bytes:
            given = await _asked("notch", "asks")
            notch, asks = given.integer("notch", 0), given.list_of_texts("asks")
            return await looks.branch(id, notch, group=group_of_pass(id), asks=asks)

        return await told(opened, 201)

    async def same(chat: str, conversation: str) -> Response:
        async def opened() -> bytes:
            asks = (await _asked("asks")).list_of_texts("asks")
            chat_id, number = as_number("chat", chat), _conversation(conversation)
            there = exchange.world.chat(ChatId(chat_id)).entries if group_of(chat_id) is not None else {}
            texts = [one for one in there.values() if isinstance(one.content, str) and one.author]
            said: list[JsonValue] = [[one.at, one.author, cast("str", one.content)] for one in texts]
            numbers = exchange.world.last_message
            # The branch's messages may later be copied into this chat, so no other message may get these ids.
            exchange.world.number_from(numbers + _KEPT_FREE, exchange.world.invoices)
            return await looks.same_answers(
                chat_id, number, group=group_of(chat_id), numbers=numbers, asks=asks, said=said
            )

        return await told(opened, 201)

    async def held() -> Response:
        async def listed() -> JsonValue:
            await trio.lowlevel.checkpoint()
            return {"held": list(reload.view())}

        return await told(listed)

    async def choose(chat: str, conversation: str) -> Response:
        async def chosen() -> JsonValue:
            given = await _asked("way")
            way, place = given.text("way"), _conversation(conversation)
            await reload.choose(as_number("chat", chat), place, way)
            return {"held": list(reload.view())}

        return await told(chosen)

    async def take(id: str) -> Response:
        async def taken() -> JsonValue:
            await _asked()
            await reload.take(id)
            return {"held": list(reload.view())}

        return await told(taken)

    async def look(id: str) -> Response:
        return await told(lambda: looks.in_branch(id, "look", {}))

    async def do(id: str, what: str) -> Response:
        async def done() -> bytes:
            given = cast("Mapping[str, JsonValue]", (await _asked(*_TAKES[what])).values())
            return await looks.in_branch(id, what, given)

        return await told(done)

    async def throw_away(id: str) -> Response:
        return await told(lambda: looks.close_branch(id))

    async def keep(id: str) -> Response:
        async def kept() -> JsonValue:
            notch = (await _asked("notch")).integer("notch", 0)
            return await looks.keep(id, notch, group=group_of_pass(id))

        return await told(kept)

    async def keep_branch(id: str) -> Response:
        async def kept() -> JsonValue:
            await _asked()
            return await looks.keep(id, None, group=None)

        return await told(kept)

    for rule, method, view in (
        ("/pass/<id>/branch", "POST", branch),
        ("/pass/<id>/test", "POST", keep),
        ("/<chat>/<conversation>/answers", "POST", same),
        ("/held", "GET", held),
        ("/<chat>/<conversation>/held", "POST", choose),
        ("/branch/<id>", "GET", look),
        ("/branch/<id>", "DELETE", throw_away),
        ("/branch/<id>/test", "POST", keep_branch),
        ("/branch/<id>/take", "POST", take),
        ("/branch/<id>/<any(act, wait, step, answers):what>", "POST", do),
    ):
        blueprint.add_url_rule(rule, f"{method} {rule}", view, methods=[method])
    return blueprint


async def told(
    ask: Callable[[], Awaitable[JsonValue | bytes]], status: int = 200, *, kind: str = _JSON
) -> Response:
    """Answer with the result of `ask`, or with its error."""
    try:
        value = await ask()
    except BadAskError as error:
        return _refused(400, str(error))
    except TravelError as error:
        return _refused(410 if error.gone else 409 if error.refused else 404, str(error))
    except (TriobotError, OSError) as error:
        return _refused(503, str(error))
    if not isinstance(value, bytes):
        return _packed(gzip.compress(json_for_pages(value).encode("utf-8", "replace"), 5), status, kind)
    return _packed(value, status, kind)


def _packed(body: bytes, status: int, kind: str) -> Response:
    takes = "gzip" in request.headers.get("Accept-Encoding", "")
    response = Response(body if takes else gzip.decompress(body), status, content_type=kind)
    if takes:
        response.headers["Content-Encoding"] = "gzip"
    response.headers["Cache-Control"] = "no-store"
    return response


def _refused(status: int, reason: str) -> Response:
    return Response(encode_error(reason), status, content_type=_JSON)
