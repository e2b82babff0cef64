"""``triobot webhook-url``: the address, from settings or from the store, and why it can't be told."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio
import trio.testing
from cli_rig import Command, Ended

from triobot import Settings
from triobot.base.clock import SystemClock
from triobot.base.secrets import Secret
from triobot.runtime.work import open_intake
from triobot.store import Stamp, open_store
from triobot.store.lock import take_lock
from triobot.webhook.kept_secrets import renew_webhook_secret, webhook_secrets
from triobot.webhook.secrets import Secrets

PUBLIC = "https://bot.example.com/app"


@pytest.fixture(autouse=True)
def token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRIOBOT_TOKEN", "a-token-of-tests")


def test_the_first_secret_is_the_current_one(
    triobot: Command, hello: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """During a change both are accepted; the new one is what is registered."""
    monkeypatch.setenv("TRIOBOT_WEBHOOK_SECRET", "newnewnew-abcdefghijklmno,oldoldold-abcdefghijklmno")

    ended = triobot("webhook-url", "hello:bot", "--public-url", PUBLIC)

    assert Ended(0, f"{PUBLIC}/newnewnew-abcdefghijklmno\n", "") == ended
    assert not list(hello.parent.glob("*.db*"))


def test_settings_alone_are_enough(triobot: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRIOBOT_WEBHOOK_SECRET", "abcdefghijklmnopqrstuvwx")
    monkeypatch.setenv("TRIOBOT_PUBLIC_URL", "https://bot.example.com/")

    assert triobot("webhook-url").out == "https://bot.example.com/abcdefghijklmnopqrstuvwx\n"


def test_the_store_keeps_its_secret(triobot: Command, hello: Path) -> None:
    """Made once, the same ever after; and the person is told that it was made."""
    first = triobot("webhook-url", "hello:bot", "--public-url", PUBLIC)
    second = triobot("webhook-url", "hello:bot", "--public-url", PUBLIC)

    assert first.code == second.code == 0
    assert first.out == second.out
    assert len(first.out) > len(PUBLIC) + 22
    assert "made a new store" in first.err
    assert second.err == ""


async def accepted(store: str, at: float = 0) -> Secrets:
    """What a bot on this store accepts, so many hours from now."""
    settings = Settings(token=Secret("a-token-of-tests"), store=store)
    stamp = Stamp(settings.base_url, settings.checked_token.reveal())
    async with open_store(store, stamp=stamp, clock=SystemClock(), visit=True) as opened:
        now = SystemClock().now() + round(at * 3_600_000)
        return (await webhook_secrets(settings.webhook_secret, opened, now))[0]


@pytest.mark.parametrize(("overlap", "hours"), [((), 24), (("--overlap", "2"), 2), (("--overlap", "0"), 0)])
def test_the_store_s_secret_is_renewed(
    triobot: Command, hello: Path, overlap: tuple[str, ...], hours: float
) -> None:
    """The new one is what is registered from now on; the one before is accepted for a while."""
    place = f"sqlite:{hello.parent}/triobot.db"
    public = ("webhook-url", "hello:bot", "--public-url", PUBLIC)
    old = triobot(*public).out.strip().rpartition("/")[2]

    renewed = triobot(*public, "--renew", *overlap)

    new = renewed.out.strip().rpartition("/")[2]
    assert (renewed.code, renewed.err) == (0, "")
    assert new != old
    assert triobot(*public).out == renewed.out
    assert trio.run(accepted, place).current == new
    assert not hours or trio.run(accepted, place, hours - 0.1).matches(old)
    assert not trio.run(accepted, place, hours + 0.1).matches(old)
    assert trio.run(accepted, place, hours + 0.1).matches(new)


def test_a_secret_that_is_set_is_renewed_where_it_is_set(
    triobot: Command, hello: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRIOBOT_WEBHOOK_SECRET", "abcdefghijklmnopqrstuvwx")

    ended = triobot("webhook-url", "hello:bot", "--public-url", PUBLIC, "--renew")

    assert (ended.code, ended.out) == (1, "")
    assert "put a new one in front of it" in ended.err


def test_an_overlap_of_nothing_is_a_mistake(triobot: Command, hello: Path) -> None:
    ended = triobot("webhook-url", "hello:bot", "--public-url", PUBLIC, "--overlap", "3")

    assert ended.code == 1
    assert "--renew" in ended.err


@pytest.mark.slow
async def test_a_bot_that_runs_ends_the_overlap_by_itself(
    hello: Path, autojump_clock: trio.testing.MockClock
) -> None:
    """Neither before its time, nor only at the next start; the clock may be set meanwhile."""
    place = f"sqlite:{hello.parent}/bot.db"
    settings = Settings(token=Secret("a-token-of-tests"), store=place)
    clock = Wall()
    old = (await accepted(place)).current
    stamp = Stamp(settings.base_url, settings.checked_token.reveal())
    async with open_store(place, stamp=stamp, clock=clock, visit=True) as store:
        await renew_webhook_secret(store, clock.now() + 24 * 3_600_000)

    async with open_intake(settings, clock) as intake:
        await trio.sleep(23.9 * 3_600)
        assert intake.secrets.matches(old)
        await trio.sleep(1.2 * 3_600)
        assert not intake.secrets.matches(old)
        assert intake.secrets.matches(intake.secrets.current)


@pytest.mark.slow
async def test_a_second_renewal_leaves_the_overlap_of_the_first(
    hello: Path, autojump_clock: trio.testing.MockClock
) -> None:
    """The platform uses the address of the first secret until the operator has registered another."""
    place = f"sqlite:{hello.parent}/bot.db"
    settings = Settings(token=Secret("a-token-of-tests"), store=place)
    clock = Wall()
    used = [(await accepted(place)).current]
    stamp = Stamp(settings.base_url, settings.checked_token.reveal())
    for hours in (24, 48, None, 1):
        async with open_store(place, stamp=stamp, clock=clock, visit=True) as store:
            if hours is not None:
                await renew_webhook_secret(store, clock.now() + hours * 3_600_000)
        used.append((await accepted(place)).current)

    async with open_intake(settings, clock) as intake:
        assert all(map(intake.secrets.matches, used))
        await trio.sleep(1.5 * 3_600)
        assert [intake.secrets.matches(one) for one in used] == [False, False, False, False, True]


class Wall:
    """The time of day goes with the virtual clock."""

    def now(self) -> int:
        return 1_700_000_000_000 + round(trio.current_time() * 1_000)


def test_a_running_bot_s_store_can_t_be_read(triobot: Command, hello: Path, tmp_path: Path) -> None:
    lock = take_lock(tmp_path / "triobot.db")

    ended = triobot("webhook-url", "hello:bot", "--public-url", PUBLIC)
    lock.release()

    assert (ended.code, ended.out) == (1, "")
    assert "stop the bot for a moment, or set TRIOBOT_WEBHOOK_SECRET" in ended.err


def test_a_store_in_memory_keeps_nothing(triobot: Command, hello: Path) -> None:
    ended = triobot("webhook-url", "hello:bot", "--public-url", PUBLIC, "--store", "memory:")

    assert (ended.code, ended.out) == (1, "")
    assert "set TRIOBOT_WEBHOOK_SECRET" in ended.err


@pytest.mark.parametrize(
    "public", ["bot.example.com", "ftp://bot.example.com", "https://me:pass@host", "https://h/?q"]
)
def test_the_public_address_must_be_one(
    triobot: Command, monkeypatch: pytest.MonkeyPatch, public: str
) -> None:
    monkeypatch.setenv("TRIOBOT_WEBHOOK_SECRET", "abcdefghijklmnopqrstuvwx")

    ended = triobot("webhook-url", "--public-url", public)

    assert (ended.code, ended.out) == (1, "")
    assert "https://bot.example.com" in ended.err


def test_without_a_public_address_it_asks_for_one(triobot: Command) -> None:
    ended = triobot("webhook-url")

    assert (ended.code, ended.out) == (1, "")
    assert "--public-url" in ended.err
