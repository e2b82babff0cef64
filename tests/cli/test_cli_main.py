"""The grammar: help, version, wrong usage; and what each command loads."""

from __future__ import annotations

import subprocess
import sys

import pytest
from cli_rig import Command, child_environment

import triobot as package
from triobot.cli import parse


def test_the_version_is_the_package_s(triobot: Command) -> None:
    ended = triobot("--version")

    assert (0, f"triobot {package.__version__}\n") == (ended.code, ended.out)


def test_no_command_is_a_question_for_help(triobot: Command) -> None:
    assert triobot() == triobot("--help")


@pytest.mark.parametrize(
    ("typed", "meant"), [("rnu", "run"), ("payment", "payments"), ("webhookurl", "webhook-url")]
)
def test_a_mistyped_command_is_told_which_is_meant(triobot: Command, typed: str, meant: str) -> None:
    ended = triobot(typed, "pizza:bot")

    assert (ended.code, ended.out) == (2, "")
    assert f"there is no command {typed!r}; did you mean {meant!r}?" in ended.err


def test_help_names_every_command_and_shows_examples(triobot: Command) -> None:
    ended = triobot("--help")

    assert ended.code == 0
    assert "examples:" in ended.out
    for command in ("new", "run", "talk", "webhook-url", "emulate", "demo", "store", "jobs"):
        assert f"\n    {command}" in ended.out


@pytest.mark.parametrize(
    "command",
    [
        "new",
        "run",
        "webhook-url",
        "emulate",
        "demo",
        "store",
        "jobs",
        "jobs run",
        "broadcast stop",
        "journal end",
    ],
)
def test_each_command_explains_itself(triobot: Command, command: str) -> None:
    ended = triobot(*command.split(), "--help")

    assert ended.code == 0
    assert f"triobot {command}" in ended.out


@pytest.mark.parametrize(
    "arguments",
    [
        ("dance",),
        ("run",),
        ("run", "bot:bot", "--port", "http"),
        ("run", "bot:bot", "--port", "70000"),
        ("run", "bot:bot", "--port", "۸۰"),
        ("run", "bot:bot", "--fd", "-1"),
        ("run", "bot:bot", "--grace", "nan"),
        ("run", "bot:bot", "--grace", "-1"),
        ("run", "bot:bot", "--stor", "memory:"),
        ("run", "bot:bot", "--token", "secret"),
        ("store", "dance", "bot:bot"),
        ("jobs", "dance"),
        ("jobs", "list", "weekly"),
        ("jobs", "run"),
        ("broadcast",),
        ("broadcast", "status"),
        ("broadcast", "list", "news"),
        ("journal",),
        ("journal", "show"),
        ("journal", "show", "first"),
        ("journal", "list", "--redact"),
        ("journal", "retry", "3", "--say", "Hi"),
    ],
    ids=" ".join,
)
def test_wrong_usage_is_exit_code_2(triobot: Command, arguments: tuple[str, ...]) -> None:
    """A usage line, and nothing was started."""
    ended = triobot(*arguments)

    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("usage: triobot")
    assert "Traceback" not in ended.err


HELP = """\
import contextlib, io, triobot.cli
with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):
    triobot.cli.main([{}"--help"])"""


def loaded_by(code: str) -> set[str]:
    """The modules that a process has loaded after running this."""
    ran = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys; print(*sys.modules)"],
        check=True,
        capture_output=True,
        text=True,
        env=child_environment(),
    )
    return set(ran.stdout.split())


@pytest.mark.slow
def test_the_command_line_itself_loads_little() -> None:
    """Its help needs none of the commands; and the emulator is never loaded by `triobot run`."""
    helped = loaded_by(HELP.format("")) - loaded_by("pass")
    run = loaded_by("import triobot.cli, triobot.cli.run_work; triobot.cli.parse(['run', 'echo:bot'])")

    assert {name for name in helped if name.partition(".")[0] not in sys.stdlib_module_names} == {
        "triobot",
        "triobot.cli",
        "triobot.base",
        "triobot.base.version",
    }
    assert "triobot.cli.run" in run
    assert not [name for name in run if name.startswith(("triobot.emulator", "triobot.testing"))]


@pytest.mark.slow
@pytest.mark.parametrize("command", ["run", "journal"])
def test_the_help_of_a_command_waits_for_no_import(command: str) -> None:
    """Its arguments are in a module apart from its work, so it is there in a tenth of the time."""
    loaded = loaded_by(HELP.format(f"{command!r}, "))

    assert f"triobot.cli.{command}" in loaded
    assert not loaded & {"trio", "attr", "attrs", "triobot.errors", f"triobot.cli.{command}_work"}


@pytest.mark.parametrize(
    ("before", "behind"),
    [
        ("store backup --store sqlite:x.db copy.db", "store --store sqlite:x.db backup copy.db"),
        ("store check --store sqlite:x.db copy.db", "store check copy.db --store sqlite:x.db"),
        ("store rebind --store sqlite:x.db pizza:bot", "store --store sqlite:x.db rebind pizza:bot"),
        ("journal show --bot pizza:bot 41", "journal show 41 --bot pizza:bot"),
        ("broadcast status --bot pizza:bot news", "broadcast status news --bot pizza:bot"),
        ("broadcast --json stop news", "broadcast stop news --json"),
        (
            "journal --store sqlite:x.db check --sample 3 pizza:bot",
            "journal check pizza:bot --sample 3 --store sqlite:x.db",
        ),
        ("journal end --chat 7 --say Bye 41", "journal end 41 --say Bye --chat 7"),
        ("jobs", "jobs list"),
        ("jobs --json --bot pizza:bot", "jobs list --bot pizza:bot --json"),
        ("jobs --bot pizza:bot run weekly", "jobs run weekly --bot pizza:bot"),
        ("payments --json totals", "payments totals --json"),
        ("payments --bot pizza:bot show 7", "payments show --bot pizza:bot 7"),
        ("payments adopt --coin 1 -2 3", "payments adopt 1 -2 3 --coin"),
    ],
)
def test_options_stand_anywhere(before: str, behind: str) -> None:
    """Before what a command is about, too, and before its action."""
    one, other = parse(before.split()), parse(behind.split())
    assert vars(one) == vars(other)
    assert "work" in one


def test_python_m_is_the_same_command() -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "triobot", "--version"],
        check=True,
        capture_output=True,
        text=True,
        env=child_environment(),
    )

    assert ran.stdout == f"triobot {package.__version__}\n"
