"""Several bots in one process share a listener; each bot has its own store, token and path."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import httpx
import pytest
import trio

from tests.bot.rig import FORM, Chats
from tests.loopback import text_event
from triobot import Bot, Chat, Settings
from triobot.errors import ConfigError, StoreLockedError, TriobotError
from triobot.runtime.serve import serve_together
from triobot.store.lock import take_lock

SECRETS = ("shop-secret-0123456789-abcdef", "desk-secret-0123456789-abcdef")


def named(name: str, chats: Chats) -> Bot:
    """Make a bot that says its name."""
    bot = Bot(transport=httpx.MockTransport(chats.take))

    @bot.conversation
    async def hello(chat: Chat) -> None:
        await chat.send(f"{name} here.")

    return bot


def settings(number: int, folder: Path, **more: object) -> Settings:
    """Make the settings of one of two."""
    given: dict[str, object] = {
        "token": f"token-{number}",
        "base_url": "http://127.0.0.1:9",
        "webhook_secret": SECRETS[number],
        "store": f"sqlite:{folder / f'{number}.db'}",
        "port": 0,
        **more,
    }
    return Settings(**given)  # type: ignore[arg-type]


async def test_each_hears_what_comes_by_its_path(tmp_path: Path) -> None:
    """And what comes by none of them is a 404; all of them rest when one is stopped."""
    chats = (Chats(), Chats())
    bots = [named("Shop", chats[0]), named("Desk", chats[1])]
    pairs = [(bot, settings(number, tmp_path)) for number, bot in enumerate(bots)]

    async def told(*, task_status: trio.TaskStatus[list[str]] = trio.TASK_STATUS_IGNORED) -> None:
        await serve_together(pairs, task_status=task_status)

    async with trio.open_nursery() as nursery:
        (address,) = await nursery.start(told)
        async with httpx.AsyncClient(base_url=address) as client:
            for number in (0, 1):
                answer = await client.post(
                    f"/{SECRETS[number]}", content=text_event(7, "hi"), headers={"content-type": FORM}
                )
                assert answer.status_code == 200
            stranger = await client.post("/another-secret-0123456789-abc", content=text_event(7, "hi"))
            assert stranger.status_code == 404
            assert (await client.get("/readyz")).status_code == 200
        await chats[0].wait_for(7, "Shop here.")
        await chats[1].wait_for(7, "Desk here.")
        bots[1].stop()


async def test_none_runs_if_one_can_not_start(tmp_path: Path) -> None:
    """No background task of the others has begun."""
    began: list[str] = []
    bots = [named("Shop", Chats()), named("Desk", Chats())]

    @bots[0].background
    async def follow() -> None:
        began.append("shop")

    lock = take_lock(tmp_path / "1.db")
    try:
        with pytest.raises(BaseExceptionGroup) as failed:
            await serve_together([(bot, settings(number, tmp_path)) for number, bot in enumerate(bots)])
    finally:
        lock.release()
    assert failed.group_contains(StoreLockedError, match=r"1\.db")
    assert began == []


@pytest.mark.parametrize(
    ("more", "what"),
    [
        ({"token": "the-same"}, "same token"),
        ({"store": "sqlite:same.db"}, "same store"),
        ({"webhook_secret": SECRETS[0]}, "same webhook secret"),
    ],
)
async def test_what_each_must_have_for_itself(tmp_path: Path, more: dict[str, object], what: str) -> None:
    bots = [named("Shop", Chats()), named("Desk", Chats())]
    with pytest.raises(ConfigError, match=f"two bots have the {what}, and each needs its own") as refused:
        await serve_together([(bot, settings(number, tmp_path, **more)) for number, bot in enumerate(bots)])
    assert "Bot(env='SHOP_')" in str(refused.value)
    assert "secret-0123" not in str(refused.value)


async def test_bots_that_would_listen_elsewhere_are_refused(tmp_path: Path) -> None:
    bots = [named("Shop", Chats()), named("Desk", Chats())]
    places: Sequence[dict[str, object]] = ({"port": 8001}, {"port": 8002})
    with pytest.raises(ConfigError, match="share one listener"):
        await serve_together(
            [(bot, settings(number, tmp_path, **places[number])) for number, bot in enumerate(bots)]
        )
    with pytest.raises(ConfigError, match="named twice"):
        await serve_together([(bots[0], settings(number, tmp_path)) for number in (0, 1)])


def test_a_bot_reads_variables_that_begin_with_its_own_prefix(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Its store has that name, too; what the author keeps beside them is nobody's mistake."""
    for name in [name for name in os.environ if name.startswith("TRIOBOT_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("TRIOBOT_TOKEN", "of another")
    monkeypatch.setenv("SHOP_TOKEN", "of the shop")
    monkeypatch.setenv("SHOP_PORT", "9000")
    monkeypatch.setenv("SHOP_DATABASE", "the author's")
    shop, desk = Bot(env="SHOP_").settings(), Bot(env="DESK_")
    assert shop.checked_token.reveal() == "of the shop"
    assert (shop.port, shop.store) == (9000, "sqlite:shop.db")
    assert caplog.text == ""
    with pytest.raises(TriobotError, match="no token: set DESK_TOKEN"):
        _ = desk.settings().checked_token

    monkeypatch.setenv("SHOP_TOKN", "mistyped")
    monkeypatch.setenv("SHOP_PORT", "http")
    with pytest.raises(ConfigError, match="SHOP_PORT must be a number"):
        Bot(env="SHOP_").settings()
    assert "nothing reads the variable SHOP_TOKN" in caplog.text
    with pytest.raises(ConfigError, match="such as SHOP_"):
        Bot(env="shop")
