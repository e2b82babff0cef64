"""A line of the terminal that is edited while other lines appear above it; labels are completed by Tab.

On the standard library's readline. Without it, or where the input is no terminal, lines are read as they
come.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from importlib import import_module
from io import TextIOWrapper
from types import ModuleType
from typing import Final, cast, final

import trio

from ...cli.terminal import is_terminal
from ...wire.json_text import mend

_CLEAR_LINE: Final = "\r\x1b[K"


@final
class LineEditor:
    """Reads lines and shows others; made by `open_editor`."""

    def __init__(self, editing: ModuleType | None) -> None:
        self._editing = editing
        self._prompt: str | None = None

    async def read(self, prompt: str) -> str | None:
        """Return the next line, without its end; None at the end of the input.

        Cancellation: *atomic*: what was typed by then is lost.
        """
        if sys.stdin is None:  # closed before this process began
            await trio.lowlevel.checkpoint()
            return None
        if self._editing is None:
            line = await trio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True)
            return line.rstrip("\n") if line else None
        self._prompt = prompt
        try:
            return await trio.to_thread.run_sync(_input, prompt, abandon_on_cancel=True)
        finally:
            self._prompt = None

    def show(self, line: str) -> None:
        """Write a line above the one that is being edited."""
        if self._editing is None or self._prompt is None:
            print(line, flush=True)
            return
        typed = mend(self._editing.get_line_buffer())
        sys.stdout.write(f"{_CLEAR_LINE}{line}\n{self._prompt}{typed}")
        sys.stdout.flush()


def _input(prompt: str) -> str | None:
    try:
        return input(prompt)
    except EOFError:
        print()
        return None


def _module(name: str) -> ModuleType | None:
    try:
        return import_module(name)
    except ImportError:  # not built into this Python
        return None


@asynccontextmanager
async def open_editor(words: Callable[[], Awaitable[Sequence[str]]]) -> AsyncGenerator[LineEditor]:
    """Edit lines while the block runs; the terminal is left as it was.

    Args:
        words: what Tab completes a line to, asked each time.
    """
    stdin: object = sys.stdin
    if isinstance(stdin, TextIOWrapper):
        cast("TextIOWrapper", stdin).reconfigure(errors="replace")  # a bad byte costs itself alone
    readline, termios = _module("readline"), _module("termios")
    if readline is None or termios is None or not (is_terminal(sys.stdin) and is_terminal(sys.stdout)):
        yield LineEditor(None)
        return
    found: list[str] = []

    def complete(typed: str, number: int) -> str | None:
        if number == 0:
            found[:] = [word for word in trio.from_thread.run(words) if word.startswith(typed)]
        return found[number] if number < len(found) else None

    before = termios.tcgetattr(sys.stdin)
    readline.set_completer_delims("")  # a label is completed as a whole
    readline.set_completer(complete)
    libedit = "libedit" in (readline.__doc__ or "")
    readline.parse_and_bind("bind ^I rl_complete" if libedit else "tab: complete")
    try:
        yield LineEditor(readline)
    finally:
        readline.set_completer(None)
        # A line that was being edited when the program ends leaves the terminal without an echo.
        termios.tcsetattr(sys.stdin, termios.TCSANOW, before)
