"""A whole bot, run in each possible way."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import httpx
import pytest
import trio
from quart_trio import QuartTrio

from tests.bot.rig import FORM, SECRET, Chats, make_bot, say
from tests.loopback import PATIENCE, text_event
from triobot import Alarm, Bot, Chat, Settings
from triobot.base.secrets import Secret
from triobot.errors import ConfigError, ForeignTaskError, StoreLockedError


def echo_bot(chats: Chats, **given: Any) -> Bot:
    """Repeats what is said."""
    bot = make_bot(chats, **given)

    @bot.conversation
    async def echo(chat: Chat) -> None:
        await chat.send(chat.event.content)  # type: ignore[attr-defined]

    return bot


async def post(url: str, chat: int, text: str) -> int:
    """Post an event over a socket."""
    async with httpx.AsyncClient() as client:
        headers = {"Content-Type": FORM}
        return (await client.post(url, content=text_event(chat, text), headers=headers)).status_code


async def test_running_needs_no_listener() -> None:
    """`running` is the whole bot behind the inbox's door."""
    chats = Chats()
    async with echo_bot(chats).running() as intake:
        await say(intake, 7, "hello")
        await chats.wait_for(7, "hello")


async def test_the_same_bot_runs_again_and_again() -> None:
    """A bot is a declaration: nothing of a run stays in it."""
    chats = Chats()
    bot = echo_bot(chats)
    for number in range(3):
        async with bot.running() as intake:
            await say(intake, number, "hello")
            await chats.wait_for(number, "hello")


async def test_serve_hands_over_its_address_and_stops_cleanly() -> None:
    """An embedding program starts it in its nursery, and stops it."""
    chats = Chats()
    bot = echo_bot(chats)
    async with trio.open_nursery() as nursery:
        (address,) = await nursery.start(bot.serve)
        assert await post(f"{address}/{SECRET}", 7, "hello") == 200
        assert await post(f"{address}/wrong", 7, "hello") == 404
        await chats.wait_for(7, "hello")
        assert bot.statistics().counts["started"] == 1
        bot.stop()


async def test_a_stop_waits_for_what_is_being_said() -> None:
    """A conversation that is busy gets the grace period; what it says then goes out."""
    chats = Chats(gate=trio.Event())
    bot = echo_bot(chats)
    async with trio.open_nursery() as nursery:
        (address,) = await nursery.start(bot.serve)
        assert await post(f"{address}/{SECRET}", 7, "hello") == 200
        await chats.entered.wait()
        bot.stop()
        # The bot accepts events until its end, but no longer dispatches them.
        assert await post(f"{address}/{SECRET}", 8, "late") == 200
        assert chats.gate is not None
        chats.gate.set()
    assert chats.texts == {7: ["hello"]}


async def test_what_a_stop_did_not_handle_is_handled_by_the_next_run(tmp_path: Path) -> None:
    """An event that was accepted while the bot came to rest waits in the store."""
    chats = Chats(gate=trio.Event())
    bot = echo_bot(chats, store=f"sqlite:{tmp_path / 'bot.db'}", grace=0.05)
    async with bot.running() as intake:
        await say(intake, 7, "hello")
        await chats.entered.wait()
    assert chats.texts == {}

    chats.gate = None
    async with bot.running():
        await chats.wait_for(7, "hello")


async def test_cancelling_serve_loses_no_accepted_event(tmp_path: Path) -> None:
    """The embedding program's cancellation cuts what is being done; the inbox keeps it."""
    chats = Chats(gate=trio.Event())
    bot = echo_bot(chats, store=f"sqlite:{tmp_path / 'bot.db'}")
    async with trio.open_nursery() as nursery:
        (address,) = await nursery.start(bot.serve)
        assert await post(f"{address}/{SECRET}", 7, "hello") == 200
        await chats.entered.wait()
        nursery.cancel_scope.cancel()
    assert chats.texts == {}

    chats.gate = None
    async with bot.running():
        await chats.wait_for(7, "hello")


@pytest.mark.parametrize("grace", [0.05, 10 * PATIENCE])
async def test_a_conversation_that_catches_everything_is_cut_all_the_same(
    tmp_path: Path, grace: float
) -> None:
    """It feels a cancellation, not a failed send: after that it would end, and its event be forgotten."""
    chats = Chats(gate=trio.Event())
    bot = make_bot(chats, store=f"sqlite:{tmp_path / 'bot.db'}", grace=grace)

    @bot.conversation
    async def stubborn(chat: Chat) -> None:
        for _ in range(3):
            with contextlib.suppress(Exception):
                await chat.send(chat.event.content)  # type: ignore[attr-defined]

    with trio.fail_after(PATIENCE), trio.CancelScope() as scope:
        async with bot.running() as intake:
            for chat in (7, 8, 9):
                await say(intake, chat, "hello")
            await chats.entered.wait()
            if grace > PATIENCE:
                scope.cancel()
    assert chats.texts == {}

    chats.gate = None
    async with bot.running():
        for chat in (7, 8, 9):
            await chats.wait_for(chat, "hello", "hello", "hello")


async def test_the_door_from_outside_sends_and_is_closed_inside() -> None:
    """`bot.to` is for other tasks; in a conversation it is refused with the author's line."""
    chats = Chats()
    bot = make_bot(chats)
    refusals: list[str] = []

    @bot.conversation
    async def inside(chat: Chat) -> None:
        try:
            bot.to(8)
        except ForeignTaskError as error:
            refusals.append(str(error))

    with pytest.raises(ConfigError):
        bot.to(7)
    async with bot.running() as intake:
        sent = await bot.to(7).send("from outside")
        await bot.to(7).edit(sent, "changed")
        await bot.to(7).delete(sent)
        await say(intake, 7, "hello")
        with trio.fail_after(PATIENCE):
            while not refusals:
                await trio.sleep(0.01)

    assert chats.texts[7] == ["from outside"]
    assert "test_bot_running.py" in refusals[0]


async def test_two_runs_at_once_share_no_store(tmp_path: Path) -> None:
    """The second one is told who has the file."""
    store = f"sqlite:{tmp_path / 'bot.db'}"
    async with echo_bot(Chats(), store=store).running():
        with pytest.raises(StoreLockedError):
            async with echo_bot(Chats(), store=store).running():
                pass


async def test_the_alarm_hook_hears_of_a_refused_token() -> None:
    """One alarm, though every chat is refused."""
    alarms: list[Alarm] = []

    async def refuse(request: httpx.Request) -> httpx.Response:
        return httpx.Response(403, content=b'{"error": "told to"}')

    bot = Bot(
        settings=Settings(token=Secret("t"), base_url="http://127.0.0.1:9", store="memory:", grace=0.1),
        transport=httpx.MockTransport(refuse),
    )

    @bot.on_alarm
    async def hear(alarm: Alarm) -> None:
        alarms.append(alarm)

    @bot.conversation
    async def echo(chat: Chat) -> None:
        await chat.send("hello")

    async with bot.running() as intake:
        for chat in range(1, 8):
            await say(intake, chat, "hello")
        with trio.fail_after(PATIENCE):
            while not alarms:
                await trio.sleep(0.01)
        assert not intake.readiness().ready

    assert [alarm.kind for alarm in alarms] == ["token_refused"]


def test_a_bot_without_routes_says_so() -> None:
    """Nothing is started, and the line says what to do."""
    with pytest.raises(BaseExceptionGroup) as caught:
        trio.run(make_bot(Chats()).serve)
    assert caught.group_contains(ConfigError, match="no route")


# --- as an ASGI application


@asynccontextmanager
async def lifespan(app: Any) -> AsyncGenerator[list[str]]:
    """Run an application's lifespan as a server does."""
    to_app, inbox = trio.open_memory_channel[dict[str, str]](1)
    outbox, from_app = trio.open_memory_channel[dict[str, Any]](4)
    said: list[str] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(app, {"type": "lifespan"}, inbox.receive, outbox.send)
        await to_app.send({"type": "lifespan.startup"})
        said.append((await from_app.receive())["type"])
        yield said
        await to_app.send({"type": "lifespan.shutdown"})
        said.append((await from_app.receive())["type"])


async def test_the_asgi_application_runs_the_bot_in_its_lifespan() -> None:
    """Before the start and after the stop requests are answered 503: they were not accepted."""
    chats = Chats()
    app = echo_bot(chats).asgi
    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url="http://bot") as client:
        headers = {"Content-Type": FORM}
        assert (await client.post(f"/{SECRET}", content=b"", headers=headers)).status_code == 503
        async with lifespan(app) as said:
            answer = await client.post(f"/{SECRET}", content=text_event(7, "hello"), headers=headers)
            assert answer.status_code == 200
            await chats.wait_for(7, "hello")
        assert said == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
        assert (await client.get("/healthz")).status_code == 503


async def test_an_asgi_start_that_fails_tells_the_server_why() -> None:
    """The server prints one line, not a traceback through five layers."""
    app = make_bot(Chats()).asgi
    messages: list[dict[str, Any]] = []

    async def receive() -> dict[str, str]:
        return {"type": "lifespan.startup"}

    async def send(message: dict[str, Any]) -> None:
        messages.append(message)

    await app({"type": "lifespan"}, receive, send)

    assert messages[0]["type"] == "lifespan.startup.failed"
    assert "no route" in messages[0]["message"]


@pytest.mark.parametrize("mounted", [False, True], ids=["alone", "in a site"])
def test_a_server_on_another_event_loop_hears_what_to_change(
    caplog: pytest.LogCaptureFixture, mounted: bool
) -> None:
    """hypercorn's workers run on asyncio unless it is told otherwise."""
    bot, site = echo_bot(Chats()), QuartTrio("site")
    bot.mount(site, "/bot")
    app = cast("Callable[..., Coroutine[Any, Any, None]]", site if mounted else bot.asgi)
    messages: list[dict[str, Any]] = []

    async def receive() -> dict[str, str]:
        return {"type": "lifespan.startup"}

    async def send(message: dict[str, Any]) -> None:
        messages.append(message)

    with pytest.raises(SystemExit) as ended:
        asyncio.run(app({"type": "lifespan"}, receive, send))

    assert (ended.value.code, messages) == (1, [])
    assert "a bot runs on Trio: give hypercorn --worker-class trio" in caplog.text


# --- mounted


async def test_a_mounted_bot_lives_with_its_site() -> None:
    """The site's own routes and the webhook under its prefix, in one application."""
    chats = Chats()
    bot, site = echo_bot(chats), QuartTrio("site")
    bot.mount(site, "/bot")

    @site.get("/")
    async def home() -> str:
        return "home"

    @site.post("/tell/<int:chat>")
    async def tell(chat: int) -> str:
        await bot.to(chat).send("from the site")
        return "told"

    async with site.test_app() as app:
        client = app.test_client()
        assert await (await client.get("/")).get_data(as_text=True) == "home"
        answer = await client.post(
            f"/bot/{SECRET}", data=text_event(7, "hello"), headers={"Content-Type": FORM}
        )
        assert answer.status_code == 200
        await chats.wait_for(7, "hello")
        assert (await client.post("/bot/wrong", data=b"")).status_code == 404
        await client.post("/tell/9")
        assert chats.texts[9] == ["from the site"]


async def test_a_site_that_stops_in_the_middle_of_a_send_lets_it_finish() -> None:
    """The site's own deadline for its tasks doesn't cut the bot: its grace period counts."""
    chats = Chats(gate=trio.Event())
    bot, site = echo_bot(chats), QuartTrio("site")
    site.config["SHUTDOWN_TIMEOUT"] = 0.01
    site.config["BACKGROUND_TASK_SHUTDOWN_TIMEOUT"] = 0.01
    bot.mount(site, "/bot")

    async def open_gate() -> None:
        await trio.sleep(0.3)
        assert chats.gate is not None
        chats.gate.set()

    async with trio.open_nursery() as nursery, site.test_app() as app:
        body = text_event(7, "hello")
        headers = {"Content-Type": FORM}
        answer = await app.test_client().post(f"/bot/{SECRET}", data=body, headers=headers)
        assert answer.status_code == 200
        await chats.entered.wait()
        nursery.start_soon(open_gate)

    assert chats.texts == {7: ["hello"]}


async def test_a_mounted_bot_that_can_t_start_says_why(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """In one line of its own, whatever the site's server makes of it."""
    store = f"sqlite:{tmp_path / 'bot.db'}"
    site = QuartTrio("site")
    echo_bot(Chats(), store=store).mount(site, "/bot")
    asked, said = iter(["lifespan.startup", "lifespan.shutdown"]), list[str]()

    async def receive() -> dict[str, str]:
        return {"type": next(asked)}

    async def send(message: dict[str, Any]) -> None:
        said.append(message["type"])

    async with echo_bot(Chats(), store=store).running():
        await site({"type": "lifespan"}, receive, send)  # type: ignore[arg-type]

    assert said[0] == "lifespan.startup.failed"
    (line,) = [record.message for record in caplog.records if record.name == "triobot"]
    assert line.startswith("the bot was not started: the store ")
    assert "open in this process" in line


@pytest.mark.parametrize(
    ("behind", "fails"), [("lifespan.startup.complete", 1), ("lifespan.shutdown.complete", 0)]
)
async def test_a_life_that_its_server_cuts_is_a_failure_of_hypercorn(
    monkeypatch: pytest.MonkeyPatch, behind: str, fails: int
) -> None:
    """Not behind its end, where hypercorn cancels what is left of it."""
    failed = list[None]()
    monkeypatch.setattr("triobot.runtime.asgi._fail_hypercorn", lambda: failed.append(None))
    asked = iter(["lifespan.startup", "lifespan.shutdown"])

    async def receive() -> dict[str, str]:
        return {"type": next(asked)}

    async def send(message: dict[str, Any]) -> None:
        if message["type"] == behind:
            scope.cancel()
        await trio.lowlevel.checkpoint()

    with trio.CancelScope() as scope:
        await echo_bot(Chats()).asgi({"type": "lifespan"}, receive, send)  # type: ignore[arg-type]

    assert scope.cancelled_caught
    assert len(failed) == fails
