"""The sources of settings, and the errors for wrong settings."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest

from triobot import Bot, Chat, Settings
from triobot.base.limits import ServingLimits
from triobot.base.secrets import Secret
from triobot.errors import ConfigError
from triobot.runtime.settings import read_environment
from triobot.webhook.limits import LIMITS, Limits


def test_nothing_set_is_the_defaults() -> None:
    """An empty environment is not an error until a token is needed."""
    settings = read_environment({})

    assert settings == Settings()
    with pytest.raises(ConfigError, match="TRIOBOT_TOKEN"):
        _ = settings.checked_token


def test_every_variable_is_read() -> None:
    """Each has its place."""
    settings = read_environment(
        {
            "TRIOBOT_TOKEN": "t",
            "TRIOBOT_BASE_URL": "https://example.org",
            "TRIOBOT_WEBHOOK_SECRET": "s",
            "TRIOBOT_STORE": "memory:",
            "TRIOBOT_HOST": "::1",
            "TRIOBOT_PORT": "0",
            "TRIOBOT_PUBLIC_URL": "https://bot.example.org",
            "TRIOBOT_USERNAME": "pizza",
            "TRIOBOT_UNIX": "/run/bot.sock",
            "TRIOBOT_UNIX_MODE": "0660",
            "TRIOBOT_UNIX_GROUP": "www-data",
            "TRIOBOT_MEDIA_HOSTS": "files.example.org, cdn.example.net",
            "TRIOBOT_DEVELOPMENT": "1",
            "TRIOBOT_RETENTION_DAYS": "30",
            "TRIOBOT_KEEP_ENDED": "2",
            "TRIOBOT_CONNECTIONS": "100",
            "TRIOBOT_CONNECTIONS_PER_ADDRESS": "none",
            "TRIOBOT_SHARED_ADDRESSES": "203.0.113.7, 10.0.0.0/8",
            "TRIOBOT_IDLE_SECONDS": "2.5",
        }
    )

    assert settings == Settings(
        token=Secret("t"),
        base_url="https://example.org",
        webhook_secret=Secret("s"),
        store="memory:",
        host="::1",
        port=0,
        public_url="https://bot.example.org",
        username="pizza",
        unix="/run/bot.sock",
        unix_mode=0o660,
        unix_group="www-data",
        media_hosts=("files.example.org", "cdn.example.net"),
        development=True,
        retention_days=30,
        keep_ended=2,
        limits=Limits(
            connections=100,
            connections_per_address=None,
            shared_addresses=("203.0.113.7", "10.0.0.0/8"),
            idle_seconds=2.5,
        ),
    )


def test_every_limit_has_a_variable() -> None:
    """Under its own name, and none of them shares it with a setting."""
    values = {name: "7" for name in LIMITS if name != "shared_addresses"}

    limits = read_environment({f"TRIOBOT_{name.upper()}": value for name, value in values.items()}).limits

    assert {name: getattr(limits, name) for name in values} == dict.fromkeys(values, 7)
    assert not set(LIMITS) & {field.name for field in attrs.fields(Settings)}


def test_a_file_stands_for_its_variable(tmp_path: Path) -> None:
    """Secrets may come from files, without the newline that editors leave there."""
    place = tmp_path / "token"
    place.write_text("from a file\n")

    assert read_environment({"TRIOBOT_TOKEN_FILE": str(place)}).token == Secret("from a file")


@pytest.mark.parametrize(
    ("environ", "said"),
    [
        ({"TRIOBOT_TOKEN": "t", "TRIOBOT_TOKEN_FILE": "/x"}, "both set"),
        ({"TRIOBOT_TOKEN_FILE": "/nowhere/token"}, "can't be read"),
        ({"TRIOBOT_PORT": "eighty"}, "must be a number"),
        ({"TRIOBOT_PORT": "۸۰"}, "must be a number"),
        ({"TRIOBOT_PORT": "70000"}, "from 0 to 65535"),
        ({"TRIOBOT_UNIX": "/x", "TRIOBOT_UNIX_MODE": "rw"}, "in octal, such as 660"),
        ({"TRIOBOT_UNIX_GROUP": "www-data"}, "no path to listen on"),
        ({"TRIOBOT_CONNECTIONS": "many"}, "connections must be a number, such as 4096"),
        ({"TRIOBOT_CONNECTIONS": "0"}, "connections must be above zero"),
        ({"TRIOBOT_CONNECTIONS": "۸۰"}, "connections must be a number"),
        ({"TRIOBOT_BODY_BYTES": "1.5"}, "body_bytes must be a number"),
        ({"TRIOBOT_SHARED_ADDRESSES": "proxy.example"}, "no address or network"),
    ],
)
def test_what_is_wrong_is_said(environ: dict[str, str], said: str) -> None:
    """One line, which names the variable or the rule."""
    with pytest.raises(ConfigError, match=said):
        read_environment(environ)


def test_secrets_are_not_shown() -> None:
    """Neither by repr nor by str."""
    settings = Settings(token=Secret("the-token"), webhook_secret=Secret("the-secret"))

    assert "the-token" not in f"{settings!r} {settings}"
    assert "the-secret" not in f"{settings!r} {settings}"


def test_an_argument_beats_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """And the environment is read when a run starts, not when the bot is made."""
    bot = Bot("argument", store="memory:")
    monkeypatch.setenv("TRIOBOT_TOKEN", "environment")
    monkeypatch.setenv("TRIOBOT_STORE", "sqlite:x.db")
    monkeypatch.setenv("TRIOBOT_HOST", "0.0.0.0")

    settings = bot.settings()

    assert settings.token == Secret("argument")
    assert settings.store == "memory:"
    assert settings.host == "0.0.0.0"


def test_settings_and_arguments_together_are_refused() -> None:
    """One of the two would be forgotten in silence."""
    with pytest.raises(ConfigError, match="not both"):
        Bot("token", settings=Settings())


def test_a_variable_that_nobody_reads_is_told(caplog: pytest.LogCaptureFixture) -> None:
    """A misspelt name must not pass in silence; its value is not shown."""
    read_environment({"TRIOBOT_TOKN": "the-token", "TRIOBOT_TOKEN_FILE": "", "HOME": "/root"})

    assert "TRIOBOT_TOKN" in caplog.text
    assert "TRIOBOT_TOKEN_FILE" not in caplog.text
    assert "the-token" not in caplog.text


def test_media_hosts_reach_the_client() -> None:
    """What an error names can be set; the client, which knows what a host is, says so."""
    bot = Bot(settings=Settings(token=Secret("t"), store="memory:", port=0, media_hosts=("files/x",)))

    @bot.conversation
    async def silent(chat: Chat) -> None:
        pass

    with pytest.raises(ConfigError, match="media_hosts must hold plain host names"):
        bot.run()


def test_a_token_is_given_as_text_and_shown_nowhere() -> None:
    settings = Settings(token="a-real-token", webhook_secret="a-real-secret")
    assert settings.checked_token == Secret("a-real-token")
    assert "a-real" not in repr(settings)


@pytest.mark.parametrize("name", ["TRIOBOT_LOG_TRACEBACKS", "TRIOBOT_DEVELOPMENT"])
@pytest.mark.parametrize("value", ["false", "no", "off", "00", "true"])
def test_a_switch_is_0_or_1(name: str, value: str) -> None:
    """What shows what people wrote is not turned on by a word for no."""
    with pytest.raises(ConfigError, match=f"^{name} must be 0 or 1$"):
        read_environment({name: value})
    assert read_environment({name: "0"}) == Settings()


@pytest.mark.parametrize("name", [" ", "shop\nBcc: a@example.org", "shop\x1b[2J"])
def test_a_name_is_one_line(name: str) -> None:
    """It begins the subject of each mail, and stands in each line of the log."""
    with pytest.raises(ConfigError, match="the bot's name must be one line of text"):
        Settings(name=name)


@pytest.mark.parametrize("cls", [Settings, Limits, ServingLimits])
def test_every_setting_refuses_what_is_of_another_type(cls: type) -> None:
    """A number in quotes raised a TypeError where it was used, or a day and a half was a number of days."""
    usual = cls()
    for field in attrs.fields(cls):
        value = getattr(usual, field.name)
        wrong: list[object] = [object(), b"3", ["3"], ("3", 3), {}]
        if not isinstance(value, bool):
            wrong.append(True)
        if type(value) is int:
            wrong += ["3", 1.5]
        if type(value) is float:
            wrong.append("3")
        for one in wrong:
            with pytest.raises(ConfigError, match=rf"{cls.__name__}\({field.name}=\) must be of type"):
                cls(**{field.name: one})


def test_a_wrong_setting_is_named_with_both_types() -> None:
    """A whole number is a number, too."""
    assert Settings(grace=3, rate=2).grace == 3
    with pytest.raises(ConfigError, match=r"^Settings\(retention_days=\) must be of type int, not str$"):
        Settings(retention_days="3")  # type: ignore[arg-type]
    with pytest.raises(
        ConfigError, match=r"Settings\(token=\) must be of type Secret \| None, not bytes"
    ) as refused:
        Settings(token=b"secret")  # type: ignore[arg-type]
    assert "secret" not in str(refused.value)
    with pytest.raises(ConfigError, match=r"media_hosts=\) must be of type tuple\[str, \.\.\.\], not str"):
        Settings(media_hosts="files.example.org")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="grace period must not be negative"):
        Settings(grace=float("nan"))
