"""The grammar: help, version, wrong usage; and what each command loads."""

from __future__ import annotations

import subprocess
import sys

import pytest
from cli_rig import Command, child_environment

import triobot as package


def test_the_version_is_the_package_s(triobot: Command) -> None:
    ended = triobot("--version")

    assert (0, f"triobot {package.__version__}\n") == (ended.code, ended.out)


def test_help_names_every_command_and_shows_examples(triobot: Command) -> None:
    ended = triobot("--help")

    assert ended.code == 0
    assert "examples:" in ended.out
    for command in ("run", "talk", "webhook-url", "emulate", "demo", "store"):
        assert f"\n    {command}" in ended.out


@pytest.mark.parametrize("command", ["run", "webhook-url", "emulate", "demo", "store"])
def test_each_command_explains_itself(triobot: Command, command: str) -> None:
    ended = triobot(command, "--help")

    assert ended.code == 0
    assert f"triobot {command}" in ended.out


@pytest.mark.parametrize(
    "arguments",
    [
        (),
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
    ],
    ids=" ".join,
)
def test_wrong_usage_is_exit_code_2(triobot: Command, arguments: tuple[str, ...]) -> None:
    """A usage line, and nothing was started."""
    ended = triobot(*arguments)

    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("usage: triobot")
    assert "Traceback" not in ended.err


def loaded_by(code: str) -> set[str]:
    """The modules that a process has loaded after running this."""
    ran = subprocess.run(
        [sys.executable, "-c", f"{code}; import sys; print(*sys.modules)"],
        check=True,
        capture_output=True,
        text=True,
        env=child_environment(),
    )
    return set(ran.stdout.split())


def test_the_command_line_itself_loads_little() -> None:
    """Nobody else's package besides those of `import triobot`; and the emulator never by `triobot run`."""
    added = loaded_by("import triobot.cli; triobot.cli.build_parser()") - loaded_by("import triobot")

    assert added
    assert {name.partition(".")[0] for name in added} <= sys.stdlib_module_names | {"triobot"}
    assert not [name for name in added if name.startswith(("triobot.emulator", "triobot.testing"))]


def test_python_m_is_the_same_command() -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "triobot.cli", "--version"],
        check=True,
        capture_output=True,
        text=True,
        env=child_environment(),
    )

    assert ran.stdout == f"triobot {package.__version__}\n"
