"""Sites: the author's calls that led to each operation. Each site gets a number while the code runs.

A site is the chain of the author's calls that led to the operation, from the outermost inwards. Each link of
the chain is a range of a source's text. A source is named by its digest. A site's number is a digest of the
site's links. So an unchanged module keeps its sites across deploys, and all processes compute the same
numbers. Bytecode offsets are translated into ranges, and never stored.
"""

from __future__ import annotations

import linecache
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from hashlib import blake2b
from importlib.machinery import PathFinder
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final, NamedTuple, TypeAlias, cast, final

UNKNOWN: Final = 0
"""Number of an unknown site."""
SKIPPED, AUTHORS, BORDER = 0, 1, 2
"""Kinds of frames: a frame of other code, a frame of the author's code, and the border of the chain."""

_COMPREHENSIONS: Final = frozenset({"<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"})
Range: TypeAlias = "tuple[int | None, int | None, int | None, int | None]"
"""Line, column, last line, column after the end: the values of `code.co_positions`, in another order."""

_Stacks: TypeAlias = "dict[int, Any]"  # tree by each frame's code and offset, innermost first; leaves: sites


@final
class SiteLink(NamedTuple):
    """Link of a chain: one call.

    Attributes:
        digest: digest of the source. Code without a known source has `CODE`, followed by a digest of the
            code. The link between a child task and the line that started the task has `CHILD`.
        function: the ``__qualname__``.
        place: range in the source; for code without a source, the line counts from the function's first line.
    """

    digest: str
    function: str
    place: Range


CHILD: Final = ""
CODE: Final = "!"
_NO_PLACE: Final[Range] = (None, None, None, None)
_BORDER_LINK: Final = SiteLink(CHILD, "", _NO_PLACE)

SiteRow: TypeAlias = "tuple[int, int, str, str, int | None, int | None, int | None, int | None]"
"""Stored site: its number, the number of the site without the last link (0: no links), and the last link."""


@final
class Sites:
    """Sites of one store.

    Args:
        kind_of: returns the kind of frames with the given code.

    Attributes:
        unkept: new sites that are not stored yet; the caller that stores these sites empties the list.
        present: module name and text of each running source, by the source's digest.
    """

    def __init__(self, kind_of: Callable[[CodeType], int]) -> None:
        self._kind_of = kind_of
        # The code objects are kept alive, because their ids are used as keys.
        self._kinds: dict[int, tuple[int, CodeType]] = {}
        # For each site at which a task was started: the site numbers, by the frames of a stack (`_Stacks`).
        self._seen: dict[int, _Stacks] = {}
        self._links: dict[int, tuple[int, SiteLink]] = {}
        self._files: dict[str, list[str]] = {}
        self.unkept: list[SiteRow] = []
        self.present: dict[str, tuple[str, str]] = {}

    def read(self, modules: Iterable[tuple[str, str]]) -> None:
        """Read the sources of modules, given by name and file, before a deploy replaces the files."""
        for name, file in modules:
            digest, text = read_file(file)
            if text:
                self._add_source(name, file, digest, text)

    def know(self, sites: Iterable[SiteRow]) -> None:
        """Add sites from the store."""
        for number, before, digest, function, *place in sites:
            self._links.setdefault(number, (before, SiteLink(digest, function, cast("Range", tuple(place)))))

    # --- for each operation

    def here(self, root: int = UNKNOWN, inner: int = 1, entry: Any = None) -> int:
        """Return the site at which the caller's operation begins.

        Args:
            root: for a child task, the site that started the task.
            inner: number of innermost frames to skip, which are never an author's. Each inspected frame
                becomes an object that lives as long as the frame runs.
            entry: coroutine of the outermost frame to inspect, so that fewer frames become objects.
        """
        first = frame = sys._getframe(inner)  # pyright: ignore[reportPrivateUsage]
        try:
            last, node = entry.cr_frame, self._seen[root]
            # The sum of a code's id and an offset identifies both: ids are addresses in memory, and an offset
            # is smaller than its code object.
            while frame is not last:
                node = node[id(frame.f_code) + frame.f_lasti]
                frame = cast("FrameType", frame.f_back)
            return cast("int", node[-id(frame.f_code) - frame.f_lasti])
        except (KeyError, AttributeError):
            return self.of_frames(_outwards(first), root, getattr(entry, "cr_frame", None))

    def _kind(self, code: CodeType) -> int:
        own = id(code)
        if own not in self._kinds:
            self._kinds[own] = self._kind_of(code), code
        return self._kinds[own][0]

    # --- once for each site

    def of_frames(self, frames: Iterable[FrameType], root: int, last: FrameType | None = None) -> int:
        """Compute a task's site from the task's frames, given from the innermost outwards to `last`."""
        chain: list[tuple[CodeType, int]] = []
        stack: list[int] = []
        own = is_over = False
        for frame in frames:
            code, offset = frame.f_code, frame.f_lasti
            kind = self._kind(code)
            is_over = is_over or kind == BORDER
            if kind and not is_over:
                chain.append((code, offset))
            stack.append(id(code) + offset)
            if (own := frame is last) or (is_over and last is None):
                break
        number = self._add(root, _BORDER_LINK) if root else root
        chain.reverse()
        inside = [*(code.co_name in _COMPREHENSIONS for code, _ in chain[1:]), False]
        for (code, offset), is_around_comprehension in zip(chain, inside[: len(chain)], strict=True):
            # Only the frame inside of a comprehension counts: since Python 3.12, a comprehension has no own
            # frame.
            if not is_around_comprehension:
                number = self._add(number, self._link(code, offset))
        if own:
            node = self._seen.setdefault(root, {})
            for inner in stack[:-1]:
                node = node.setdefault(inner, {})
            node[-stack[-1]] = number
        return number

    def _add(self, before: int, link: SiteLink) -> int:
        if (number := _numbered(before, link)) not in self._links:
            self._links[number] = before, link
            self.unkept.append((number, before, link.digest, link.function, *link.place))
        return number

    def _link(self, code: CodeType, offset: int) -> SiteLink:
        place = _place_in(code, offset)
        if digest := self._source_of(code):
            return SiteLink(digest, code.co_qualname, place)
        line = None if place[0] is None else place[0] - code.co_firstlineno
        return SiteLink(CODE + shape_of(code), code.co_qualname, (line, *place[1:]))

    def has_source(self, code: CodeType) -> bool:
        return bool(self._source_of(code))

    def _source_of(self, code: CodeType) -> str:
        """Return the digest of the source of this code; "" if there is none.

        A file may have been replaced after its import. So the file's text is compiled, and the compiled
        module must contain `code`.
        """
        file = code.co_filename
        for digest in self._files.get(file, ()):
            if _gives(self.present[digest][1], code):
                return digest
        digest, text = read_file(file)
        if not (text and _gives(text, code)):
            return ""
        self._add_source(_module_of(file), file, digest, text)
        return digest

    def _add_source(self, name: str, file: str, digest: str, text: str) -> None:
        self.present.setdefault(digest, (name, text))
        self._files.setdefault(file, []).append(digest)

    # --- reading

    def chain(self, site: int) -> Sequence[SiteLink]:
        """Return the links of a site, the outermost first; empty for an unknown site."""
        found: list[SiteLink] = []
        while (known := self._links.get(site)) is not None:
            site, link = known
            found.append(link)
        return found[::-1]


def _outwards(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def shape_of(code: CodeType) -> str:
    """Return a digest of a function's code. Nested code and the code's position don't matter."""
    consts = [const for const in code.co_consts if not isinstance(const, CodeType)]
    shown = repr((code.co_code, code.co_names, consts))
    return blake2b(shown.encode("utf-8", "replace"), digest_size=12).hexdigest()


def _numbered(before: int, link: SiteLink) -> int:
    # Among ten thousand sites, the chance of two equal numbers is 1 in 20,000. Short numbers keep journals
    # small.
    text = f"{before} {link.digest} {link.function} {link.place}".encode("utf-8", "replace")
    return 1 + int.from_bytes(blake2b(text, digest_size=5).digest(), "big")


def read_file(file: str) -> tuple[str, str]:
    """Return the digest and text of a file's current content; "" for both if the file can't be read."""
    try:
        found = Path(file).stat()
    except OSError:  # the text is in no file, such as a notebook's
        return _digested("".join(linecache.getlines(file)))
    return _read_as(file, found.st_mtime_ns, found.st_size)


@cache
def _read_as(file: str, changed: int, size: int) -> tuple[str, str]:
    linecache.checkcache(file)
    return _digested("".join(linecache.getlines(file)))


def _digested(text: str) -> tuple[str, str]:
    if not text:
        return "", ""
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest(), text


def _gives(text: str, code: CodeType) -> bool:
    return code in _codes_in(text).get((code.co_name, code.co_firstlineno), ())


def _place_in(code: CodeType, offset: int) -> Range:
    for number, (line, last, column, end) in enumerate(code.co_positions()):
        if number * 2 == offset:
            return line, column, last, end
    return _NO_PLACE


def _module_of(file: str) -> str:
    modules = list(sys.modules.items())
    return next((name for name, module in modules if getattr(module, "__file__", None) == file), file)


@lru_cache(64)
def _codes_in(text: str) -> Mapping[tuple[str, int], Sequence[CodeType]]:
    found: dict[tuple[str, int], list[CodeType]] = {}
    try:
        left = [compile(text, "", "exec", dont_inherit=True)]
    except (SyntaxError, ValueError, RecursionError):
        return found
    for code in left:
        found.setdefault((code.co_name, code.co_firstlineno), []).append(code)
        left += [const for const in code.co_consts if isinstance(const, CodeType)]
    return found


def file_of(name: str) -> str:
    """Return the file of a module without importing the module; "" if no file is found."""
    places, path = None, ""
    for end in (*(n for n, letter in enumerate(name) if letter == "."), len(name)):
        spec = PathFinder.find_spec(name[:end], places)
        if spec is None:
            return ""
        places, path = spec.submodule_search_locations, spec.origin or ""
    return path


def loaded_modules() -> Iterator[tuple[str, str]]:
    """Yield name and file of each loaded module with a source."""
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if isinstance(file, str) and file.endswith(".py"):
            # `__main__` gets the name of its file, because other programs import the module by this name.
            yield Path(file).stem if name == "__main__" else name, file
