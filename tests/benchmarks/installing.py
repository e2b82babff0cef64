"""Peers, each in an environment of its own; one that can't be installed is missing, and that is no error."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path
from typing import Final

import attrs

PEERS: Final = Path(__file__).parent / "peers"


@attrs.frozen
class Environment:
    """What a peer needs.

    Attributes:
        packages: with their versions.
        node: they are npm's, not pip's.
    """

    name: str
    packages: tuple[str, ...]
    node: bool = False


AIOGRAM: Final = Environment("aiogram", ("aiogram==3.31.0",))
AIOHTTP: Final = Environment("aiohttp", ("aiohttp==3.14.5",))
TELEGRAM: Final = Environment("python-telegram-bot", ("python-telegram-bot[webhooks]==22.8",))
GRAMMY: Final = Environment("grammy", ("grammy@1.46.0",), node=True)
CONVERSATIONS: Final = Environment(
    "grammy-conversations", ("grammy@1.46.0", "@grammyjs/conversations@2.1.1"), node=True
)


def default_folder() -> Path:
    """Where peers are installed unless somebody says otherwise."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "triobot-peers"


def installed(environment: Environment, folder: Path) -> list[str] | None:
    """The start of a command line that runs a program in this environment; None if it can't be installed."""
    place = folder / "-".join([environment.name, *environment.packages]).replace("/", "_")
    done = place / "installed"
    if not done.exists():
        shutil.rmtree(place, ignore_errors=True)
        print(f"installing {', '.join(environment.packages)} into {place}", file=sys.stderr)
        try:
            _install(environment, place)
        except (OSError, subprocess.SubprocessError) as error:
            print(f"{environment.name} can't be installed, and is left out: {error}", file=sys.stderr)
            return None
        done.touch()
    # Node looks for modules beside the program, so that is where the program goes.
    return ["node", str(place)] if environment.node else [str(place / "bin" / "python")]


def program(command: list[str], name: str) -> list[str]:
    """The command line of a peer's program."""
    if command[0] != "node":
        return [*command, str(PEERS / f"{name}.py")]
    copy = Path(command[1]) / f"{name}.cjs"
    copy.write_bytes((PEERS / f"{name}.cjs").read_bytes())
    return ["node", str(copy)]


def _install(environment: Environment, place: Path) -> None:
    if environment.node:
        place.mkdir(parents=True)
        (place / "package.json").write_text('{"private": true}')
        command = ["npm", "install", "--silent", "--no-audit", "--no-fund", *environment.packages]
        subprocess.run(command, cwd=place, check=True, timeout=300, capture_output=True)
        return
    venv.create(place, with_pip=True)
    python = str(place / "bin" / "python")
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, *environment.packages], check=True, timeout=300, capture_output=True)
