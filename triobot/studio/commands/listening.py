"""Options of commands with a page: ``--ready-fd`` informs a script, ``--open`` opens a browser."""

from __future__ import annotations

import argparse
import json
import os
import sys
import webbrowser
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial

import trio

from ...cli.arguments import whole
from ...cli.terminal import harmless
from ...emulator.server import Emulator
from ...emulator.strictness import Liberty
from ...errors import ConfigError
from ...runtime.settings import PREFIX

_ERROR_OUTPUT = 2


def add_listening(parser: argparse.ArgumentParser) -> None:
    """Add the options of the commands that run a platform."""
    parser.add_argument(
        "--strict",
        action="store_true",
        help="refuse requests that the interface doesn't promise to take, even if the platform may",
    )
    add_opening(parser)


def add_opening(parser: argparse.ArgumentParser) -> None:
    """Add the options of the commands that serve a page."""
    parser.add_argument("--open", action="store_true", help="open the page in your browser")
    parser.add_argument(
        "--ready-fd",
        metavar="N",
        type=whole("the number of an open descriptor, such as 3", 0, 65535),
        help="write the addresses and keys to this descriptor, one line of JSON, once they can be used",
    )


def check_listening(arguments: argparse.Namespace) -> None:
    """Check the descriptor of ``--ready-fd`` before anything starts.

    Raises:
        ConfigError: the descriptor isn't open, or isn't writable.
    """
    fd: int | None = arguments.ready_fd
    if fd is None:
        return
    try:
        os.write(fd, b"")
    except OSError:
        raise ConfigError(
            f"--ready-fd {fd}: it is not open, or can't be written to; open it, as in {fd}>ready.json"
        ) from None
    os.set_inheritable(fd, False)


async def announced(
    arguments: argparse.Namespace,
    platform: Emulator,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Write the platform's addresses to ``--ready-fd``, report ready, and open the browser if asked.

    After that, print once each kind of request that goes beyond the platform's documented interface.
    """
    platform.exchange.hear_liberty = partial(_tell_liberty, platform)
    if arguments.ready_fd is not None:
        facts = {
            "base_url": platform.base_url,
            "token": platform.token,
            "control_url": platform.control_url,
            "control_token": platform.control_token,
            "page": platform.page_address,
        }
        tell_ready(arguments.ready_fd, facts)
    task_status.started()
    if arguments.open:
        await open_page(platform.one_time_address())


async def open_page(address: str) -> None:
    """Open a page in the browser, or print that this failed.

    Args:
        address: address that works once, since other users of this machine can see a browser's command line.
    """
    opened = False
    with suppress(webbrowser.Error):
        opened = await trio.to_thread.run_sync(webbrowser.open, address, abandon_on_cancel=True)
    if not opened:
        print("triobot: no browser could be opened: open the page yourself", file=sys.stderr, flush=True)


def _tell_liberty(platform: Emulator, operation: str, liberty: Liberty) -> None:
    strict = platform.world.switches.strict
    what = "refused" if strict else "taken, though the interface doesn't promise it"
    words = f"{operation}: {liberty.field} {liberty.rule}"
    print(f"triobot: {what}: {harmless(words)}", file=sys.stderr, flush=True)


def tell_ready(fd: int, facts: Mapping[str, object]) -> None:
    """Write `facts` and this process's id to `fd` as JSON; close `fd` unless it is a standard stream."""
    # The reader may be gone already.
    with suppress(BrokenPipeError):
        os.write(fd, json.dumps({**facts, "pid": os.getpid()}).encode() + b"\n")
    if fd > _ERROR_OUTPUT:
        os.close(fd)


def ignored_variables(environ: Mapping[str, str]) -> Sequence[str]:
    """Return the names of the triobot variables in `environ`, which development commands ignore."""
    return sorted(name for name, value in environ.items() if name.startswith(PREFIX) and value)
