"""A twin: another process with another order of sets, in which a bot's journals are run again.

A conversation whose buttons come from a set repeats itself as long as its process lives, and nowhere else:
Python gives each process another order. So does what a module remembers. Here is who asks; `twin_process`
answers, with where its run of a journal stands. A twin is a convenience: one that can't be started, can't
import the bot, or is silent for too long is done without.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias, final

import attrs
import trio

from .conversations.inspection.checking import Checked, Passed, parted
from .conversations.inspection.rerun import Divergence
from .conversations.inspection.standing import Standing, from_json
from .journal.records import encode_record
from .values import lasting_module

Tell: TypeAlias = Callable[[Divergence], None]

# To start is to import the bot, to answer is to run one journal; the machine may be busy.
_PATIENCE: Final = 30.0
_PAUSE: Final = 0.5
_WAITING: Final = 16
_STEP: Final = "step"
_WHERE: Final = "in another process, where sets have another order and modules remember nothing"


@final
@attrs.frozen
class Home:
    """Where another process finds a bot."""

    module: str
    file: str
    name: str


def home_of(bot: object) -> Home | None:
    """Where a bot is found by other processes: at the top of a module; None if it isn't."""
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if isinstance(file, str) and file.endswith(".py"):
            for attribute, value in list(vars(module).items()):
                if value is bot:
                    return Home(lasting_module(name), str(Path(file).resolve()), attribute)
    return None


@final
@attrs.frozen
class Reworded:
    """An operation that has other arguments than its record: in words, their digest, and the line."""

    id: str
    what: str
    print: str
    line: str


@final
@attrs.frozen
class Answer:
    """What became of a journal in a twin.

    Attributes:
        beyond: what would have been recorded after its end.
        failed_at: the author's line that failed, if the conversation did.
    """

    divergence: Divergence | None
    reworded: Sequence[Reworded]
    standing: Standing
    beyond: str | None
    failed_at: str | None


def question(home: Home, checked: Checked) -> str:
    """A bot's conversation, as a line for a twin."""
    row = attrs.asdict(checked.stored.row, filter=lambda field, _: field.name not in ("id", "lease"))
    lines = [{"conversation": checked.stored.row.id, **row}]
    lines += [{"n": n, "record": encode_record(record)} for n, record in enumerate(checked.stored.records)]
    asked = {"home": attrs.astuple(home), "path": sys.path, "group": checked.group, "lines": lines}
    return json.dumps({**asked, "hosts": list(checked.charge_hosts)})


def read_answer(line: str) -> Answer | None:
    """What a twin said; None if it can't tell."""
    told: Mapping[str, Any] | None = json.loads(line)
    if told is None:
        return None
    divergence = told["divergence"]
    return Answer(
        None if divergence is None else Divergence(*divergence),
        tuple(Reworded(*one) for one in told["reworded"]),
        from_json(told["standing"]),
        told["beyond"],
        told["failed_at"],
    )


def apart(checked: Checked, answer: Answer) -> Divergence | None:
    """How a twin's run parts from where its conversation stood."""
    if answer.divergence is not None:
        return answer.divergence
    said = [one for one in answer.reworded if not one.what.startswith(f"a {_STEP} ")]
    if said:
        return _reworded(said[0])
    before, now = _without_steps(checked.standing), _without_steps(answer.standing)
    return parted(before, now, beyond=answer.beyond, failed_at=answer.failed_at)


def differing(one: Answer, other: Answer) -> Divergence | None:
    """How two twins' runs of one journal part."""
    if one.divergence != other.divergence:
        return other.divergence or one.divergence
    ours, theirs = ({said.id: said for said in answer.reworded} for answer in (one, other))
    for id in ours | theirs:
        mine, its = ours.get(id), theirs.get(id)
        if (mine and mine.print) != (its and its.print):
            return _reworded(mine or its)
    if one.divergence is not None or one.beyond == other.beyond is not None:
        return None  # the two agree, and were given a journal of other code
    beyond, failed_at = other.beyond or one.beyond, other.failed_at or one.failed_at
    return parted(one.standing, other.standing, beyond=beyond, failed_at=failed_at)


def _without_steps(standing: Standing) -> Standing:
    """In a twin a step that is a resource's method has no name: the resource isn't open there."""
    operations = ((id, kind, "" if kind == _STEP else print) for id, kind, print in standing.operations)
    return attrs.evolve(standing, operations=tuple(operations))


def _reworded(one: Reworded | None) -> Divergence:
    assert one is not None
    return Divergence(one.id, one.what, one.line)


@final
class Twin:
    """One process, for any number of bots; started when it is asked first.

    Args:
        seed: of the order of its sets: ``PYTHONHASHSEED``.
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._process: subprocess.Popen[bytes] | None = None
        self._closed = False

    def start(self) -> None:
        """Start it, if it doesn't run; the first question does it, too."""
        if self._process is not None or self._closed:
            return
        command = [sys.executable, "-m", f"{__package__}.twin_process"]
        house = str(Path(__file__).parents[1])
        path = os.pathsep.join([house, *filter(None, [os.environ.get("PYTHONPATH")])])
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            env={**os.environ, "PYTHONHASHSEED": str(self._seed), "PYTHONPATH": path},
        )

    async def ask(self, question: str) -> Answer | None:
        """Let it run a journal; None if it can't tell, now or ever."""
        if self._closed:
            await trio.lowlevel.checkpoint()
            return None
        try:
            line = await trio.to_thread.run_sync(self._exchange, question, abandon_on_cancel=True)
        except OSError:
            line = ""
        except BaseException:
            # Its answer would be taken for the next question's.
            self.close()
            raise
        if not line:
            self.close()
        return read_answer(line) if line else None

    def close(self) -> None:
        """End it."""
        process, self._process, self._closed = self._process, None, True
        if process is not None:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    with suppress(OSError):
                        pipe.close()

    def _exchange(self, question: str) -> str:
        self.start()
        process = self._process
        assert process is not None and process.stdin is not None and process.stdout is not None
        rest = memoryview(f"{question}\n".encode())
        while rest:
            rest = rest[process.stdin.write(rest) :]
        said, until = b"", time.monotonic() + _PATIENCE
        while not said.endswith(b"\n"):
            left = until - time.monotonic()
            if left <= 0 or not select.select([process.stdout], [], [], left)[0]:
                return ""
            if not (chunk := process.stdout.read(65536)):
                return ""
            said += chunk
        return said.decode()


@asynccontextmanager
async def open_beside(bot: object) -> AsyncGenerator[Passed | None]:
    """Ask a twin while the block runs, now and then, about whichever conversation came to rest last.

    Yields what is told of them; None where no other process could find the bot.
    """
    home = home_of(bot)
    if home is None:
        yield None
        return
    twin = Twin(int.from_bytes(os.urandom(3), "big") + 1)
    newest: dict[int, tuple[Checked, Tell]] = {}
    stirred, diverged = trio.Event(), set[int]()

    def passed(checked: Checked, tell: Tell) -> None:
        id = checked.stored.row.id
        if id not in diverged:
            newest.pop(id, None)
            newest[id] = (checked, tell)
            if len(newest) > _WAITING:
                del newest[next(iter(newest))]
            stirred.set()

    async def keep_asking() -> None:
        nonlocal stirred
        while True:
            await stirred.wait()
            # Not while somebody waits for the bot's next word.
            await trio.sleep(_PAUSE)
            id = next(reversed(newest))
            checked, tell = newest.pop(id)
            if not newest:
                stirred = trio.Event()
            answer = await twin.ask(question(home, checked))
            if answer is not None and (found := apart(checked, answer)) is not None:
                diverged.add(id)
                tell(attrs.evolve(found, what=f"{found.what} ({_WHERE})"))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(keep_asking)
        try:
            yield passed
        finally:
            nursery.cancel_scope.cancel()
            await _closed(twin)


async def _closed(twin: Twin) -> None:
    with trio.CancelScope(shield=True):
        # To wait for a process that was killed takes no time, unless the machine is very busy.
        await trio.to_thread.run_sync(partial(twin.close))
