"""``triobot new``: make a folder with a bot, its test, and files for running it on a server."""

from __future__ import annotations

import argparse
import base64
import hashlib
import keyword
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from zipfile import ZIP_DEFLATED, ZipFile

from ..base.extras import distribution
from ..errors import ConfigError

DETAILS: Final = """\
Makes the folder NAME with a bot, its test, a systemd service and socket, a container file, and the triobot
that runs here as a wheel, which its requirements install. The bot runs as it is, and its test passes.
Existing files are not overwritten.

examples:
  triobot new pizza                          prints the commands that set it up, try it and test it
"""

_BOT: Final = '''\
"""A bot that takes orders: change it into yours."""

from triobot import Bot, Chat
from triobot.filters import command, join, text

bot = Bot()
SIZES = {"s": "Small", "l": "Large"}


@bot.interrupt(command("cancel"))  # anywhere: ends the live conversation
async def cancel(chat: Chat) -> None:
    await chat.send("Cancelled.")


@bot.conversation(join() | command("start") | text())
async def order(chat: Chat) -> None:
    name = await chat.ask("Hello! What is your name?")
    size = await chat.choose("Which size?", SIZES)
    with chat.move_on_after(60 * 60) as limit:  # a timeout is a block
        count = await chat.ask("How many?", int)
        await chat.send(f"{count} x {SIZES[size]} for {name}. Thank you!")
    if limit.cancelled_caught:
        await chat.send("Too slow, come back any time.")


if __name__ == "__main__":
    bot.run()
'''

_TEST: Final = '''\
"""The bot, tried by its users on an emulated platform, in virtual time."""

from NAME import bot
from triobot.testing import drive


async def test_an_order() -> None:
    async with drive(bot) as world:
        sara = world.user("Sara")
        await sara.joins()
        await sara.sees("Hello! What is your name?")
        await sara.says("Sara")
        await world.crashes()  # as by kill -9; it starts again
        await sara.presses("Large")
        await sara.says("2")
        await sara.sees("2 x Large for Sara. Thank you!")


async def test_who_does_not_answer_hears_so() -> None:
    async with drive(bot) as world:
        sara = world.user("Sara")
        await sara.joins()
        await sara.says("Sara")
        await sara.presses("Small")
        await world.waits(hours=2)
        await sara.sees("Too slow, come back any time.")
'''

_SERVICE: Final = """\
# /etc/systemd/system/NAME.service; the bot is in /opt/NAME, its token in /etc/NAME/token, for root alone.
[Unit]
Description=The bot NAME
Requires=NAME.socket
After=network-online.target
Wants=network-online.target

[Service]
Type=notify
WatchdogSec=60
ExecStart=/opt/NAME/.venv/bin/triobot run /opt/NAME/NAME.py:bot
LoadCredential=token:/etc/NAME/token
Environment=TRIOBOT_TOKEN_FILE=%d/token
Environment=TRIOBOT_STORE=sqlite:/var/lib/NAME/triobot.db
StateDirectory=NAME
DynamicUser=yes
Restart=on-failure
TimeoutStopSec=30

[Install]
WantedBy=multi-user.target
"""

_SOCKET: Final = """\
# /etc/systemd/system/NAME.socket: it outlives the process, so a deploy refuses no connection.
[Socket]
ListenStream=127.0.0.1:8080

[Install]
WantedBy=sockets.target
"""

_CONTAINER: Final = """\
# podman build -t NAME . && podman run -p 127.0.0.1:8080:8080 -v NAME:/data --secret token NAME
# The https proxy is in front of it; the token is a secret of the container's, never a part of it.
FROM python:3.13-slim
WORKDIR /bot
COPY requirements.txt *.whl ./
RUN pip install --no-cache-dir -r requirements.txt
COPY NAME.py .
RUN useradd --system bot && install -d -o bot /data
USER bot
VOLUME /data
ENV TRIOBOT_TOKEN_FILE=/run/secrets/token TRIOBOT_STORE=sqlite:/data/triobot.db TRIOBOT_HOST=0.0.0.0
EXPOSE 8080
STOPSIGNAL SIGTERM
CMD ["triobot", "run", "NAME.py:bot"]
"""

_FILES: Final[Mapping[str, str]] = {
    "NAME.py": _BOT,
    "test_NAME.py": _TEST,
    "NAME.service": _SERVICE,
    "NAME.socket": _SOCKET,
    "Containerfile": _CONTAINER,
    "requirements.txt": "./WHEEL\n",
    "requirements-dev.txt": "./WHEEL[dev,test]\n",
    ".gitignore": "triobot.db*\n.venv/\n__pycache__/\n",
}

# Files in a ``.dist-info`` folder that belong to the wheel; the other files there describe the installation.
_METADATA: Final = ("METADATA", "WHEEL", "entry_points.txt", "licenses")


def declare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "name", metavar="NAME", help="the name of the bot and of its folder: a Python name, such as pizza"
    )


def run(arguments: argparse.Namespace) -> None:
    name: str = arguments.name
    _check(name)
    folder = Path(name)
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise ConfigError(f"the folder {name} can't be made: {error.strerror}") from error
    if found := sorted(path.name for path in folder.iterdir()):
        raise ConfigError(f"the folder {name} is there, and not empty ({found[0]}); choose another name")
    wheel = _pack(folder)
    print(folder / wheel)
    for file, text in _FILES.items():
        path = folder / file.replace("NAME", name)
        path.write_text(text.replace("NAME", name).replace("WHEEL", wheel), encoding="utf-8")
        print(path)
    install = "python3 -m venv .venv && .venv/bin/pip install -r requirements-dev.txt"
    print(f"\nset it up:  cd {name} && {install}")
    print(f"try it:     cd {name} && .venv/bin/triobot dev {name}.py:bot")
    print(f"test it:    cd {name} && .venv/bin/python -m pytest")


def _pack(folder: Path) -> str:
    """Write the installed triobot into the folder as a wheel. Return the wheel's name.

    The bot's requirements need a file: no package index has this triobot, and an installed triobot has no
    sources for a build.
    """
    if (installed := distribution()) is None:
        raise ConfigError("this triobot is not installed, so no bot can bring it along: pip install .")
    about = f"{installed.name.replace('-', '_')}-{installed.version}"
    package = Path(__file__).parents[1]
    files = {
        path.relative_to(package.parent).as_posix(): path.read_bytes()
        for path in (*sorted(package.rglob("*")), package.parent / "triobot_pytest.py")
        if path.is_file() and "__pycache__" not in path.parts
    }
    for file in installed.files or ():
        if file.parts[0].endswith(".dist-info") and file.parts[1] in _METADATA:
            files["/".join((f"{about}.dist-info", *file.parts[1:]))] = Path(str(file.locate())).read_bytes()
    record = ""
    for path, content in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        record += f"{path},sha256={digest},{len(content)}\n"
    files[f"{about}.dist-info/RECORD"] = f"{record}{about}.dist-info/RECORD,,\n".encode()
    with ZipFile(folder / f"{about}-py3-none-any.whl", "w", ZIP_DEFLATED) as wheel:
        for path, content in files.items():
            wheel.writestr(path, content)
    return f"{about}-py3-none-any.whl"


def _check(name: str) -> None:
    """Check that `name` is a valid module name, and not the name of another module.

    Raises:
        ConfigError: `name` is invalid or taken.
    """
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name, re.ASCII) or keyword.iskeyword(name):
        hint = re.sub(r"\W+", "_", name.lower(), flags=re.ASCII).strip("_")
        near = f", such as {hint}" if re.fullmatch(r"[a-z][a-z0-9_]*", hint) and hint != name else ""
        raise ConfigError(f"{name!r} can't be a module's name; take small letters, digits and _{near}")
    if name in sys.stdlib_module_names or name in ("triobot", "trio", "attrs", "pytest"):
        raise ConfigError(f"{name!r} is another module's name; choose one of your own, such as {name}_bot")
