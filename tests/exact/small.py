"""A durable coroutine in small: what the runtime does, as far as sites matter; and builds, loaded from texts.

Operations have ids by their place. A record has the id, the kind, a fingerprint, a value, and the sites since
the record before. Draws and blocks take a number and no record, as in the runtime.
"""

from __future__ import annotations

import hashlib
import linecache
import random
import sys
import types
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import attrs

from triobot.exact.sites import AUTHORS, BORDER, SKIPPED, SiteRow, Sites
from triobot.exact.sources import read_source
from triobot.exact.verdicts import NO_OPTION, NOWHERE, Comparison, Judge, Parting, Side

HERE = __file__
BEGINS: set[types.CodeType] = set()


class StandError(BaseException):
    """Nobody has answered yet."""


class PartedError(BaseException):
    def __init__(self, parting: Parting) -> None:
        super().__init__(str(parting.because))
        self.parting = parting


@attrs.define
class Journal:
    """A journal.

    Attributes:
        rests: the operation in which it stands.
        keys: of the buttons on the screen.
    """

    route: str
    records: list[tuple[Side, object]] = attrs.field(factory=list)
    patches: set[str] = attrs.field(factory=set)
    rests: Side | None = None
    keys: Sequence[str] = ()


class Loaded:
    """A version of an author's modules, as it was deployed.

    Args:
        with_source: their texts are at hand.

    Attributes:
        newest: the modules and files of what was deployed last.
    """

    count = 0
    newest: Sequence[tuple[str, str]] = ()

    def __init__(self, files: Mapping[str, str], *, with_source: bool = True) -> None:
        Loaded.count += 1
        self.files = files
        self.modules: dict[str, types.ModuleType] = {}
        self.paths = [(name, f"/app/{Loaded.count}/{name}.py") for name in files]
        for name, module in list(sys.modules.items()):
            if str(getattr(module, "__file__", "")).startswith("/app/"):
                del sys.modules[name]  # of the build before
        for name, path in reversed(self.paths):
            text = files[name]
            module = types.ModuleType(name)
            module.__file__ = path
            if with_source:
                linecache.cache[path] = (len(text), None, text.splitlines(True), path)
            sys.modules[name] = module
            exec(compile(text, path, "exec", dont_inherit=True), module.__dict__)
            self.modules[name] = module
        for name in files:
            del sys.modules[name]
        Loaded.newest = self.paths

    def find(self, name: str) -> Any:
        """Return a function by its module and name; None if there is none."""
        module, _, function = name.partition(".")
        return getattr(self.modules.get(module), function, None)


class World:
    """A store, and what was deployed: each process has its own `Sites`, and knows the stored ones."""

    def __init__(self) -> None:
        self.known: list[SiteRow] = []
        self.texts: dict[str, tuple[str, str]] = {}
        self.builds: dict[int, frozenset[str]] = {}
        self.now = 0

    def start(self, loaded: Loaded) -> Sites:
        """Begin to run a build: the store knows its sources from now on."""
        sites = Sites(_kind_of)
        sites.know(self.known)
        sites.read(loaded.paths)
        self.now += 1
        self.texts |= sites.present
        self.builds[self.now] = frozenset(sites.present)
        return sites

    def source_of(self, digest: str) -> Any:
        """Read a stored source."""
        found = self.texts.get(digest)
        return None if found is None else read_source(*found)


def _kind_of(code: types.CodeType) -> int:
    if code in BEGINS:
        return BORDER
    file = code.co_filename
    return AUTHORS if file.startswith("/app/") else SKIPPED


class Chat:
    """What an author's coroutine gets."""

    def __init__(
        self,
        world: World,
        sites: Sites,
        journal: Journal,
        answers: Sequence[str],
        judge: Judge | None = None,
        pairs: list[tuple[int, int]] | None = None,
    ) -> None:
        self._world, self._sites, self._journal, self._judge = world, sites, journal, judge
        self._answers = list(answers)
        self._cursor = self._n = 0
        self._pending: list[int] = []
        self._prefix, self._root = "", 0
        self._unpatched: set[str] = set()
        self.again = False
        self._pairs = [] if pairs is None else pairs

    # --- the engine

    @property
    def _live(self) -> bool:
        return self._cursor >= len(self._journal.records)

    def _id(self) -> str:
        self._n += 1
        return f"{self._prefix}{self._n}"

    def _number(self) -> str:
        """Take a number without a record: of a draw or a block."""
        own = self._id()
        self._pending.append(self._sites.here(self._root))
        return own

    async def _operation(
        self,
        kind: str,
        print: str,
        body: Callable[[Side], object],
        print_of: Callable[[str], str] | None = None,
    ) -> Any:
        own, at = self._id(), self._world.now
        await _nothing()
        told = Side(own, kind, print, (*self._pending, self._sites.here(self._root)))
        self._pending = []
        if not self._live:
            recorded, value = self._journal.records[self._cursor]
            if self._judge is not None:
                self._pairs.append((recorded.sites[-1], told.sites[-1]))
                self._check(self._judge.compare(at, recorded, told, print_of))
                if recorded[:2] != told[:2]:
                    self._check(self._judge.part("another kind"))
            self._cursor += 1
            return value
        rests, self._journal.rests = self._journal.rests, None
        if rests is not None and self._judge is not None:
            self._pairs.append((rests.sites[-1], told.sites[-1]))
            self._check(self._judge.compare_standing(at, rests, told))
        value = body(told)
        self._journal.records.append((told, value))
        self._cursor += 1
        return value

    def _check(self, parting: Parting | None) -> None:
        if parting is not None:
            raise PartedError(parting)

    def _answer(self, told: Side) -> object:
        if not self._answers:
            self._journal.rests = told
            raise StandError
        return self._answers.pop(0)

    # --- operations

    async def send(self, text: object) -> object:
        return await self._operation(
            "send",
            _print(text),
            lambda _: len(self._journal.records),
            _print if isinstance(text, str) else None,
        )

    async def receive(self) -> Any:
        return await self._operation("receive", "", self._answer)

    async def ask(self, question: str, parser: Callable[[str], object] = str) -> object:
        await self.send(question)
        while True:
            said = await self.receive()
            try:
                return parser(said)
            except ValueError as error:
                await self.send(str(error))

    async def choose(self, question: str, options: Mapping[str, str]) -> str:
        self._number()
        keys = tuple(options)
        await self.send((question, tuple(options.values())))
        if self._journal.rests is not None and self._live and self._judge is not None:
            self.again = self._journal.keys != keys
        self._journal.keys = keys
        key: str = await self.receive()
        if self._judge is not None and key not in keys:
            self._check(self._judge.part(NO_OPTION.format(repr(key))))
        await self._operation("edit", _print(question), lambda _: None, _print)
        return key

    async def step(self, fn: Callable[..., Awaitable[object]], *args: object) -> object:
        plain = [one for one in args if isinstance(one, str | int | float | bool)]
        name = getattr(fn, "__qualname__", type(fn).__name__)
        print = f"{name} {_print(plain)}" if plain else name
        return await self._operation("step", print, lambda _: _now(fn(*args)))

    async def sleep(self, seconds: float) -> None:
        await self._operation("sleep", "", self._answer)

    def random(self) -> random.Random:
        return random.Random(f"seed{self._number()}")

    def move_on_after(self, seconds: float) -> Block:
        self._number()
        return Block()

    def fail_after(self, seconds: float) -> Block:
        self._number()
        return Block()

    def patched(self, name: str) -> bool:
        if name in self._journal.patches:
            return True
        if not self._live:
            self._unpatched.add(name)
        if name in self._unpatched:
            return False
        self._journal.patches.add(name)
        return True

    async def together(self, *functions: Callable[[Chat], Awaitable[object]]) -> None:
        """Run children, one after the other; their chains begin with the line that starts them."""
        own, root = self._number(), self._pending[-1]
        before = self._prefix, self._n, self._root
        for number, function in enumerate(functions, 1):
            self._prefix, self._n, self._root = f"{own}/{number}.", 0, root
            await _child(function, self)
        self._prefix, self._n, self._root = before


async def _child(function: Callable[[Chat], Awaitable[object]], chat: Chat) -> None:
    await function(chat)


class Block:
    def __enter__(self) -> Block:
        return self

    def __exit__(self, *_: object) -> None:
        pass


async def _nothing() -> None:
    pass


def _print(said: object) -> str:
    return hashlib.blake2b(repr(said).encode(), digest_size=8).hexdigest()


def _now(coroutine: Any) -> object:
    try:
        coroutine.send(None)
    except StopIteration as stop:
        return stop.value
    raise AssertionError("a step that waits")


def begin(
    world: World,
    sites: Sites,
    loaded: Loaded,
    journal: Journal,
    answers: Sequence[str],
    judge: Judge | None = None,
    pairs: list[tuple[int, int]] | None = None,
) -> Chat:
    """Run a conversation over its journal and on.

    Args:
        pairs: takes the sites that are compared.

    Raises:
        PartedError: it would be parked.
    """
    chat = Chat(world, sites, journal, answers, judge, pairs)
    function = loaded.find(journal.route)
    if function is None:
        raise PartedError(Parting("there is no such route", NOWHERE, NOWHERE))
    coroutine = function(chat)
    try:
        coroutine.send(None)
    except StandError:
        coroutine.close()
        return chat
    except StopIteration:
        if judge is not None and chat._cursor < len(journal.records):  # pyright: ignore[reportPrivateUsage]
            raise PartedError(judge.part("it is over, and more was recorded")) from None
        if judge is not None and journal.rests is not None:
            raise PartedError(
                judge.compare_standing(world.now, journal.rests, None) or judge.part("?")
            ) from None
        return chat
    raise AssertionError("a foreign await")


BEGINS |= {begin.__code__, _child.__code__}


@attrs.frozen
class Outcome:
    """What became of somebody at a deploy.

    Attributes:
        verdict: "same", "reworded", "again" or "parked".
        pairs: of sites that were compared.
    """

    verdict: str
    parting: Parting | None
    judge: Judge
    pairs: Sequence[tuple[int, int]]
    parts: Callable[[int], Sequence[object]]


def record(
    files: Mapping[str, str], route: str, answers: Sequence[str], *, with_source: bool = True
) -> tuple[World, Journal]:
    """Run an old build up to where somebody stands."""
    world, journal = World(), Journal(route)
    loaded = Loaded(files, with_source=with_source)
    sites = world.start(loaded)
    begin(world, sites, loaded, journal, answers)
    world.known += sites.unkept
    return world, journal


def deploy(
    world: World,
    files: Mapping[str, str],
    journal: Journal,
    formerly: Mapping[str, str] | None = None,
    accepted: Sequence[tuple[str, str, str]] = (),
    answers: Sequence[str] = (),
    *,
    with_source: bool = True,
) -> Outcome:
    """Replay a journal under a new build."""
    loaded, builds = Loaded(files, with_source=with_source), dict(world.builds)
    sites = world.start(loaded)
    told = formerly or {}
    pairs: list[tuple[int, int]] = []
    comparison = Comparison(sites, builds, world.source_of, told, accepted)
    judge = Judge(comparison)
    journal.route = told.get(journal.route, journal.route)
    try:
        chat = begin(world, sites, loaded, journal, answers, judge, pairs)
    except PartedError as parted:
        return Outcome("parked", parted.parting, judge, pairs, comparison.parts)
    except Exception as error:  # what the author's code raises over what it is given
        return Outcome(
            "parked",
            Parting(f"it fails: {type(error).__name__}", NOWHERE, NOWHERE),
            judge,
            pairs,
            comparison.parts,
        )
    world.known += sites.unkept
    verdict = "again" if chat.again else "reworded" if judge.reworded else "same"
    return Outcome(verdict, None, judge, pairs, comparison.parts)
