"""Naming a bot: what is found, and one clear line for what isn't."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from cli_rig import BOT, Command

from triobot import Bot
from triobot.cli.loading import load_bot
from triobot.errors import ConfigError


@pytest.mark.parametrize("target", ["hello:bot", "hello", "hello.py:bot", "./hello.py", "hello.py"])
def test_a_bot_is_named_by_module_or_by_file(hello: Path, target: str) -> None:
    assert isinstance(load_bot(target), Bot)


def test_a_module_finds_its_neighbours_however_it_is_named(tmp_path: Path) -> None:
    """A bot in a folder imports what lies beside it, as a script would."""
    (tmp_path / "bots").mkdir()
    (tmp_path / "bots" / "words.py").write_text("HELLO = 'hello'\n")
    (tmp_path / "bots" / "greeter.py").write_text("from words import HELLO\n" + BOT)

    assert isinstance(load_bot("bots/greeter.py:bot"), Bot)


def test_a_file_can_t_take_a_standard_module_s_place(tmp_path: Path) -> None:
    (tmp_path / "queue.py").write_text(BOT)

    assert isinstance(load_bot("queue.py:bot"), Bot)

    import queue

    assert hasattr(queue, "SimpleQueue")


def test_one_file_is_one_module(hello: Path) -> None:
    assert load_bot("hello.py:bot") is load_bot("hello:bot")


@pytest.mark.parametrize(
    ("target", "says"),
    [
        ("absent:bot", "there is no module 'absent'"),
        ("absent.inner:bot", "there is no module 'absent.inner'"),
        ("hello.inner:bot", "there is no module 'hello.inner'"),
        ("absent.py:bot", "there is no file 'absent.py'"),
        ("hello:absent", "hello has no 'absent'"),
        ("hello:bot.absent", "hello has no 'bot.absent'"),
        ("hello:other", "hello:other is a str, not a triobot.Bot"),
        (":bot", "names no bot"),
        ("hello:", "names no bot"),
        ("broken:bot", "importing broken failed at broken.py:2: ZeroDivisionError: division by zero"),
        ("broken.py:bot", "importing broken.py failed at broken.py:2: ZeroDivisionError: division by zero"),
        ("needy:bot", "importing needy failed at needy.py:1: ModuleNotFoundError: No module named 'absent'"),
        ("crooked:bot", "importing crooked failed: SyntaxError: "),
    ],
)
def test_what_can_t_be_loaded_is_one_line(
    triobot: Command, tmp_path: Path, hello: Path, target: str, says: str
) -> None:
    """The error output has one line that says what is wrong; nothing else is written."""
    (tmp_path / "broken.py").write_text("x = 1\nx / 0\n")
    (tmp_path / "needy.py").write_text("import absent\n")
    (tmp_path / "crooked.py").write_text("def\n")

    ended = triobot("run", target)

    assert (ended.code, ended.out) == (1, "")
    assert ended.err.startswith("triobot: ")
    assert says in ended.err
    assert ended.err.count("\n") == 1


@pytest.mark.parametrize(
    ("target", "own", "code"),
    [
        ("absent.py", "absent.py", "from absent.inner import Client"),
        ("absent.py", "absent.py", "import absent\nabsent.Client()"),
        ("buyer.py", "absent.py", "from absent.inner import Client"),
        ("buyer.py", "absent/__init__.py", "import absent\nabsent.Client()"),
        ("buyer.py", "colorsys.py", "from colorsys import rgb_to_hls"),
        ("buyer", "colorsys.py", "import colorsys\ncolorsys.rgb_to_hls"),
    ],
)
def test_an_own_file_that_stands_before_a_library_is_named(
    tmp_path: Path, target: str, own: str, code: str
) -> None:
    """Python looks for a library there, finds the bot's file, and says what that file lacks."""
    (tmp_path / own).parent.mkdir(exist_ok=True)
    (tmp_path / own).touch()
    (tmp_path / target.partition(".")[0]).with_suffix(".py").write_text(code)

    with pytest.raises(ConfigError) as caught:
        load_bot(target)

    name = own.removesuffix("/__init__.py").removesuffix(".py")
    hint = f"; {name} is your own {tmp_path / own}, which stands before any library of that name"
    assert str(caught.value).endswith(hint)


@pytest.mark.cold
@pytest.mark.slow
def test_a_command_s_own_libraries_are_not_the_folder_s(tmp_path: Path) -> None:
    """The bot's own modules are its own all the same, whatever library has such a name."""
    for name in ("attrs", "trio", "fnmatch"):
        (tmp_path / f"{name}.py").write_text("raise OSError('not a library')\n")
    (tmp_path / "shtab.py").touch()
    (tmp_path / "bots").mkdir()
    (tmp_path / "bots" / "seller.py").write_text("import shtab, words\nraise OSError(shtab.__file__)")
    (tmp_path / "words.py").touch()

    def run(*arguments: str) -> str:
        command = [sys.executable, "-m", "triobot", *arguments]
        ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        return ended.stdout + ended.stderr

    assert "usage: triobot demo" in run("demo", "--help")
    assert f"OSError: {tmp_path / 'shtab.py'}" in run("status", "--bot", "bots.seller")
    assert "OSError: " in run("status", "--bot", "bots/seller.py")


def test_a_file_that_python_names_is_no_library(tmp_path: Path) -> None:
    (tmp_path / "phrases.py").touch()
    (tmp_path / "greeter.py").write_text("from phrases import HELLO")

    with pytest.raises(ConfigError, match=r"cannot import name 'HELLO' from 'phrases' \(.*phrases.py\)$"):
        load_bot("greeter.py")


def test_a_library_that_is_called_like_the_bot_s_folder_may_be_meant(tmp_path: Path) -> None:
    (tmp_path / "absent").mkdir()
    (tmp_path / "absent" / "bot.py").write_text("import absent.inner\n")

    with pytest.raises(
        ConfigError, match=r"if its folder absent is meant, and no library: name it as absent.bot"
    ):
        load_bot("absent/bot.py:bot")


@pytest.mark.parametrize(
    ("place", "line", "says"),
    [
        ("shop/bot.py", "from .texts import HELLO", "name it as shop.bot:sales"),
        ("shop/bot.py", "from . import texts", "name it as shop.bot:sales"),
        ("shop/bot.py", "from shop.texts import HELLO", "name it as shop.bot:sales"),
        ("shop/bot.py", "import absent", None),
        ("shop/__init__.py", "from .texts import HELLO", "name it as shop:sales"),
        ("shop/deep/bot.py", "from ..texts import HELLO", "name it as shop.deep.bot:sales"),
        ("bare/bot.py", "from .texts import HELLO", "name it as bare.bot:sales"),
        ("bare/deep/bot.py", "from bare.texts import HELLO", "name it as bare.deep.bot:sales"),
    ],
)
def test_a_file_that_needs_its_package_is_told_how_to_be_named(
    tmp_path: Path, place: str, line: str, says: str | None
) -> None:
    """A file by itself is in no package, so that its relative imports fail; by its dotted name they don't."""
    for name in ("shop/__init__.py", "shop/deep/__init__.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "bare" / "deep").mkdir(parents=True)
    for folder in ("shop", "bare"):
        (tmp_path / folder / "texts.py").write_text("HELLO = 'hello'\n")
    (tmp_path / place).write_text(f"{line}\nfrom triobot import Bot\nsales = Bot()\n")

    with pytest.raises(ConfigError) as caught:
        load_bot(f"{place}:sales")

    if says is None:
        assert "name it" not in str(caught.value)
    else:
        assert str(caught.value).endswith(says)
        assert isinstance(load_bot(says.removeprefix("name it as ")), Bot)


def test_the_folder_to_start_from_is_named_if_it_is_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "__init__.py").touch()
    (tmp_path / "shop" / "bot.py").write_text("from . import texts\n")
    monkeypatch.chdir(tmp_path / "shop")

    with pytest.raises(ConfigError, match=f"name it from the folder {tmp_path} as shop.bot:bot"):
        load_bot("bot.py:bot")


def test_debug_shows_where_an_import_failed(triobot: Command, tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("x = 1\nx / 0\n")

    ended = triobot("run", "broken:bot", "--debug")

    assert ended.code == 1
    assert "Traceback" in ended.err
    assert "x / 0" in ended.err


def test_a_hostile_name_can_t_forge_a_line() -> None:
    with pytest.raises(ConfigError):
        load_bot("a\nb:bot")


def test_a_file_that_runs_its_bot_at_import_is_told(tmp_path: Path) -> None:
    """Else the bot would run before its options were looked at, and once more after its end."""
    (tmp_path / "eager.py").write_text("from triobot import Bot\nbot = Bot()\nbot.run()\n")

    with pytest.raises(ConfigError, match="while it is being imported"):
        load_bot("eager.py:bot")
