"""Records the bot's modules, functions and classes that run between two moments, in all threads."""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter
from types import CodeType, FrameType
from typing import Final

import attrs
import trio
from trio.testing import MockClock

from .sources import PACKAGE

BESIDE: Final = ("cli/", "emulator/", "testing/", "runtime/watchdog")
"""Not the bot, or asked by a thread in real time: nothing of it counts, nor what it calls of the rest."""

_ROOT: Final = f"{PACKAGE}/"
_NAMELESS: Final = frozenset({"<dictcomp>", "<genexpr>", "<lambda>", "<listcomp>", "<setcomp>"})
_QUIET_LOOKS: Final = 8
_LOOK_SECONDS: Final = 0.05
_IDLE_SECONDS: Final = 2.5


@attrs.frozen
class Way:
    """What the bot ran.

    Attributes:
        modules: in the order in which they were entered first.
        functions: module and qualified name of each.
        classes: those whose methods ran, with their modules.
        calls: calls of these functions.
    """

    modules: tuple[str, ...]
    functions: frozenset[tuple[str, str]]
    classes: frozenset[tuple[str, str]]
    calls: int


class Recorder:
    """Counts the bot's calls in all threads, between `begin` and `end`; threads are those started later.

    Attributes:
        clock: Trio's, which stands still meanwhile: else a busy machine, on which everything lasts longer,
            would count what the bot does each second as well.
    """

    def __init__(self) -> None:
        self.clock = MockClock(rate=1)
        self._on = False
        self._calls: Counter[tuple[str, str]] = Counter()
        self._entered: dict[str, None] = {}
        self._modules: dict[CodeType, str] = {}
        self._by_the_clock: frozenset[tuple[str, str]] = frozenset()
        self._busy = 0

    def install(self) -> None:
        """Profile this thread and those that it starts from now on."""
        threading.setprofile(self._profile)
        sys.setprofile(self._profile)

    async def learn_idling(self) -> None:
        """Learn what runs though nothing happens, so that `end` doesn't wait for it to stop."""
        self._by_the_clock = frozenset()
        self.begin(timed=True)
        await trio.sleep(_IDLE_SECONDS)
        self._on = False
        self._by_the_clock = frozenset(self._calls)

    def begin(self, *, timed: bool = False) -> None:
        """Count from here.

        Args:
            timed: time goes on.
        """
        self.clock.rate = 1 if timed else 0
        self._calls.clear()
        self._entered.clear()
        self._on = True

    async def wait_quiet(self) -> None:
        """Wait until the bot has done nothing for a while but what it does by the clock."""
        looks, seen = 0, self._busy
        while looks < _QUIET_LOOKS:
            await trio.to_thread.run_sync(time.sleep, _LOOK_SECONDS)  # Trio's clock may stand still
            looks, seen = (looks + 1 if seen == self._busy else 0), self._busy

    async def end(self) -> Way:
        """Return what has run, once nothing has for a while: what is written behind belongs to it."""
        await self.wait_quiet()
        self._on = False
        self.clock.rate = 1
        functions = frozenset(self._calls)
        return Way(
            tuple(self._entered),
            functions,
            frozenset((module, name.split(".")[0]) for module, name in functions if _of_class(name)),
            self._calls.total(),
        )

    def _profile(self, frame: FrameType, event: str, argument: object) -> None:
        if event != "call" or not self._on:
            return
        code = frame.f_code
        module = self._module_of(code)
        if not module or module.startswith(BESIDE) or code.co_name in _NAMELESS:
            return
        function = (module, code.co_qualname)
        if self._is_called_beside(frame):
            return
        self._busy += function not in self._by_the_clock
        self._calls[function] += 1
        self._entered.setdefault(module)

    def _is_called_beside(self, frame: FrameType) -> bool:
        """Tell whether the platform, a test kit or a command is among the callers."""
        above = frame.f_back
        while above is not None:
            if self._module_of(above.f_code).startswith(BESIDE):
                return True
            above = above.f_back
        return False

    def _module_of(self, code: CodeType) -> str:
        found = self._modules.get(code)
        if found is None:
            file = code.co_filename
            found = file.removeprefix(_ROOT).removesuffix(".py") if file.startswith(_ROOT) else ""
            self._modules[code] = found
        return found


def _of_class(qualified: str) -> bool:
    """Tell a method from a function, and from one that is local to a function."""
    head, dot, _ = qualified.partition(".")
    return bool(dot) and not qualified.startswith(f"{head}.<locals>")
