"""Replay under another build: whether each operation is the one that was recorded.

The recorded site is compared with the site that asks now. At a line that matched, what is said may be other
words; then the sources must say why.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from hashlib import blake2b
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias, final

import attrs

from ..base.frozen import guarded
from .sites import CHILD, CODE, SiteLink, Sites, read_source
from .sources import Loop, Point, Source, crossed, has_letters, loops_alike, used_alike

if TYPE_CHECKING:
    from .alignment import Accepted, Alignment

UNKNOWN: Final = "there is no source to tell whether this is the same"
REPLACED: Final = "it was replaced, or its words and its variable changed at once"
REMOVED: Final = "it is not there any more"
INSERTED: Final = "something new comes before it"
REORDERED: Final = "the order has changed"
ELSEWHERE: Final = "it is called from another place"
DRAWN: Final = "more or less is drawn or opened before it"
ANOTHER_WAY: Final = "the code goes another way"
ANOTHER_FUNCTION: Final = "a step calls another function"
OTHER_ARGUMENTS: Final = "a step has other arguments"
OTHER_VALUES: Final = "what calls it gives it another value"
OTHER_LOOP: Final = "the loop around it goes over other values"
CROSSED: Final = "an option has the words of another one"
OTHER_DATA: Final = "its words come from data, and are others"
OVER: Final = "it is over where somebody waited"
NO_OPTION: Final = "{} was chosen, and is no option any more"

_ACCEPTABLE: Final = frozenset({REPLACED, REMOVED, INSERTED, REORDERED, ANOTHER_FUNCTION, OTHER_ARGUMENTS})
"""Reasons that end where an author says that two lines are the same operation."""

_Part: TypeAlias = "Point | SiteLink"
PrintOf: TypeAlias = Callable[[str], str]
"""Returns the fingerprint that the present operation would have with this text."""


@final
@guarded
class SourceLine:
    """A line of an author's, as people read it.

    Attributes:
        call: what is written there, without the receiver; `function` is around it.
        words: what was said there, where that comes from data.
    """

    file: str
    line: int
    text: str
    function: str = ""
    call: str = ""
    words: str = ""

    def __str__(self) -> str:
        said = f"  {self.words!r}" if self.words else ""
        return f"{self.file}:{self.line}  {self.text}{said}"


NOWHERE: Final = SourceLine("", 0, "")


@final
@guarded
class Parting:
    """A recorded operation, and what the code does in its place.

    Attributes:
        because: why these are not the same.
        was, now: the two lines.
    """

    because: str
    was: SourceLine
    now: SourceLine

    @property
    def code(self) -> str:
        """Return what `triobot journal accept` knows these two lines by; empty if one of them is no call."""
        told = f"{self.was.function} {self.was.call} {self.now.call}"
        if not (self.was.call and self.now.call) or self.because not in _ACCEPTABLE:
            return ""
        return blake2b(told.encode("utf-8", "replace"), digest_size=3).hexdigest()

    def __str__(self) -> str:
        or_accept = f". Or: triobot journal accept {self.code}" if self.code else ""
        return f"{self.because}. Recorded at {self.was}; now at {self.now}{or_accept}"


@final
@guarded
class Build:
    """The sources that ran together.

    Attributes:
        number: in the order of deploys.
        since: when it began to run, in wall milliseconds.
        digests: of its sources.
    """

    number: int
    since: int
    digests: frozenset[str]


@final
class Comparison:
    """All that is known of old builds and of the present one; for many conversations.

    Args:
        sites: of the store, and of the code that runs.
        builds: the old ones, in their order.
        source_of: reads an old source by its digest; None if it is not there.
        formerly: old ``module.function`` names with the present ones.
        accepted: what an author has said to be the same.
    """

    def __init__(
        self,
        sites: Sites,
        builds: Sequence[Build],
        source_of: Callable[[str], Source | None],
        formerly: Mapping[str, str],
        accepted: Sequence[Accepted] = (),
    ) -> None:
        self.sites = sites
        self._builds = builds
        self._source_of = source_of
        self._formerly = formerly
        self._accepted = frozenset(accepted)
        self._sources: dict[str, Source | None] = {}
        self._present = len(sites.present)
        self._alignments: dict[int, Alignment] = {}
        self._differences: dict[tuple[int, int, int], str | None] = {}
        self._found: dict[tuple[int, int], list[str]] = {}

    def source(self, digest: str) -> Source | None:
        """Return a source, old or present."""
        if digest not in self._sources:
            found = self.sites.present.get(digest)
            self._sources[digest] = (
                self._source_of(digest)
                if found is None
                else read_source(*found, digest) or self._source_of(digest)
            )
        return self._sources[digest]

    def alignment(self, build: int) -> Alignment:
        """Return how an old build's points are matched with the present ones."""
        if len(self.sites.present) != self._present:  # a module was imported since
            self._present = len(self.sites.present)
            self._alignments, self._differences = {}, {}
        if build not in self._alignments:
            from .alignment import Alignment  # a bot whose code is the journals' has no use for it

            digests = next((one.digests for one in self._builds if one.number == build), frozenset[str]())
            same = digests & self.sites.present.keys()
            old, new = self._by_module(digests - same), self._by_module(self.sites.present.keys() - same)
            self._alignments[build] = Alignment(
                old, new, self._formerly, self._accepted, lambda: self._by_module(same).values()
            )
        return self._alignments[build]

    def _by_module(self, digests: Iterable[str]) -> dict[str, Source]:
        sources = [source for digest in sorted(digests) if (source := self.source(digest)) is not None]
        return {source.name: source for source in sources}

    def build_of(self, site: int, at: int) -> int:
        """Return the build of a site that was recorded then: the newest of that time that has its sources."""
        digests = {link.digest for link in self.sites.chain(site) if link.digest and link.digest[0] != CODE}
        having = [one for one in self._builds if digests <= one.digests]
        then = [one.number for one in having if one.since <= at]
        return then[-1] if then else having[0].number if having else -1

    def needed(self, sites: Iterable[int]) -> set[str]:
        """Return the digests of all old sources by which these sites are matched."""
        found = {link.digest for site in sites for link in self.sites.chain(site)}
        return {
            digest
            for build in self._builds
            if not found.isdisjoint(build.digests)
            for digest in build.digests
            if digest not in self.sites.present
        }

    def is_accepted(self, old: int, new: int) -> bool:
        """Return whether an author has said that the lines of two sites are the same."""
        was, now = self.line_of(old), self.line_of(new)
        return (was.function, was.call, now.call) in self._accepted

    # --- chains

    def parts(self, site: int) -> list[_Part]:
        """Return the points of a site; the bare link where there is no source."""
        return [self._part(link) for link in self.sites.chain(site)]

    def _part(self, link: SiteLink) -> _Part:
        source = self.source(link.digest) if link.digest and link.digest[0] != CODE else None
        return (source.at(link.place) if source is not None else None) or link

    def line_of(self, site: int) -> SourceLine:
        """Return the author's line of a site."""
        parts = self.parts(site)
        if not parts:
            return NOWHERE
        part = parts[-1]
        if isinstance(part, SiteLink):
            known = self.sites.present.get(part.digest)
            file = "?" if known is None else known[0]
            return SourceLine(
                file, part.place[0] or 0, f"in {part.function}: its source is not at hand", part.function
            )
        source = part.function.source
        return SourceLine(f"{source.name}.py", part.line, part.text, part.function.name, part.call)

    def difference(self, old: int, new: int, build: int) -> str | None:
        """Return why two sites are not the same operation; None if they are."""
        key = old, new, build
        if key not in self._differences:
            self._differences[key] = self._difference(old, new, build)
        return self._differences[key]

    def _difference(self, old: int, new: int, build: int) -> str | None:
        olds, news = self.parts(old), self.parts(new)
        if old == new:  # in a source that has not changed; what its loops go over may be in another one
            return OTHER_LOOP if build >= 0 and self._loops_differ(olds, news, build) else None
        if not olds or not news or any(_is_bare(one) for one in (*olds, *news)):
            return None if self.sites.chain(old) == self.sites.chain(new) else UNKNOWN
        alignment, inner, now = self.alignment(build), olds[-1], news[-1]
        assert isinstance(inner, Point)
        assert isinstance(now, Point)
        to, back = alignment.to(inner), alignment.back(now)
        if to is not now:
            if inner.function.source is now.function.source:
                return ANOTHER_WAY
            if to is None:
                return REPLACED if back is None else REMOVED
            return INSERTED if back is None else REORDERED
        became = [alignment.to(one) if isinstance(one, Point) else one for one in olds]
        if len(olds) == len(news):
            if became != news:
                return ELSEWHERE
            if any(map(_keys_differ, olds, news, news[1:])):
                return OTHER_VALUES
            return OTHER_LOOP if self._loops_differ(olds, news, build) else None
        same = [
            text
            for digest, (_, text) in self.sites.present.items()
            if self._sources.get(digest) not in alignment.new
        ]
        if not (inner.words or inner.calls or _lands_alike(olds, news)):
            return ELSEWHERE
        kept = self._needed(olds, alignment.old, same)
        needed = [alignment.to(one) or one if isinstance(one, Point) else one for one in kept]
        if needed != self._needed(news, alignment.new, same):
            return ELSEWHERE
        return OTHER_LOOP if self._loops_differ(olds, news, build) else None

    def _loops_differ(self, olds: Sequence[_Part], news: Sequence[_Part], build: int) -> bool:
        return not loops_alike(self.loops(olds, build), self.loops(news))

    def loops(self, chain: Sequence[_Part], build: int = -1) -> Sequence[Loop]:
        """Return what the loops around a chain go over, in an old build or else in the present one."""
        module = partial(self._module, build)
        return [loop for part in chain if isinstance(part, Point) for loop in part.loops(module)]

    def _module(self, build: int, name: str) -> Source | None:
        digests = next((one.digests for one in self._builds if one.number == build), self.sites.present)
        sources = map(self.source, digests)
        return next((one for one in sources if one and _last(one.name) == _last(name)), None)

    def said(
        self, site: int, print: str, texts: Iterable[str], print_of: PrintOf | None, build: int = -1
    ) -> str | None:
        """Return the text that is said at a site, if that is one of a source's; it may be within another."""
        if print_of is None:
            return None
        chain = [part for part in self.parts(site) if isinstance(part, Point)]
        # What was found for another conversation comes first.
        found = self._found.setdefault((site, build), [])
        if not found:
            found += [text for part in chain for text in part.texts(partial(self._module, build))]
        far = texts if chain and chain[-1].is_computed else ()
        text = _text_with(print, (*reversed(found), *far), chain, print_of)
        if text is not None and text not in found[-1:]:
            found.append(text)
        return text

    def _needed(
        self, chain: Sequence[_Part], sources: Sequence[Source], others: Sequence[str]
    ) -> list[_Part]:
        """Return a chain without calls that say nothing: of a helper that is called once, or by a wrapper."""
        kept: list[_Part] = []
        for call, inside in pairwise(chain):
            if isinstance(call, Point) and isinstance(inside, Point):
                name = inside.function.short
                calls = sum(source.calls[name] for source in sources)
                calls += sum(text.count(f"{name}(") - text.count(f"def {name}(") for text in others)
                if calls == (call.op == inside.function.short):
                    continue
            kept.append(call)
        return [*kept, chain[-1]]


def _last(name: str) -> str:
    return name.rpartition(".")[2]


def _lands_alike(olds: Sequence[_Part], news: Sequence[_Part]) -> bool:
    """Return whether a value that helpers return gets to the same variable."""
    was, now = (
        next((one for one in reversed(chain) if isinstance(one, Point) and one.target != "Return"), None)
        for chain in (olds, news)
    )
    return was is None or now is None or was.target == now.target or (bool(was.uses) and used_alike(was, now))


def _keys_differ(old: _Part, new: _Part, within: _Part) -> bool:
    """Return whether a helper is told another place for what it keeps."""
    if not (isinstance(old, Point) and isinstance(new, Point) and isinstance(within, Point)):
        return False
    return old.keys_given(within.function) != new.keys_given(within.function)


def _is_bare(part: _Part) -> bool:
    return isinstance(part, SiteLink) and part.digest != CHILD


@final
class Told(NamedTuple):
    """An operation, as a record tells it, or as it begins now.

    Attributes:
        print: the fingerprint of what is asked for.
        sites: of what took numbers since the branch's last record, the operation's own last; none where an
            earlier version recorded it.
    """

    id: int | str
    kind: str
    print: str
    sites: Sequence[int]


@final
class Judge:
    """Compares one conversation's journal with what its code does now.

    Attributes:
        reworded: the recorded line and the present one of all that says other words.
        parted: where the two part.
        unsited: how many records an earlier version made, which knew no sites; of these the words alone are
            compared, and `changed` counts those that are others.
    """

    def __init__(self, comparison: Comparison) -> None:
        self._comparison = comparison
        self._proven: set[tuple[int, int]] = set()
        self._last = 0, 0
        self.reworded: dict[tuple[SourceLine, SourceLine], None] = {}
        self.parted: Parting | None = None
        self.unsited = self.changed = 0

    def prepare(self, site: int, at: int) -> None:
        """Match the sources of the build that recorded this site then."""
        self._comparison.alignment(self._comparison.build_of(site, at))

    def compare(self, at: int, recorded: Told, now: Told, print_of: PrintOf | None = None) -> Parting | None:
        """Compare a record with the operation that takes it now; return how they part, if they do.

        Args:
            at: the record's time.
        """
        if not recorded.sites or not now.sites:
            self.unsited += 1
            self.changed += differs(recorded.print, now.print)
            return None
        build = self._comparison.build_of(recorded.sites[-1], at)
        old, new = self._last = recorded.sites[-1], now.sites[-1]
        why = self._difference(recorded.sites, now.sites, build)
        if why == UNKNOWN and (recorded[:3] == now[:3]) and (now.print or (old, new) in self._proven):
            self._proven.add((old, new))
            return None
        if why == OTHER_LOOP and self._says_of_loop(recorded, now, build, print_of):
            why = None
        changed = recorded.print != now.print or old != new
        if why is None and now.kind == "step" and changed:
            why = None if self._comparison.is_accepted(old, new) else self._step_differs(recorded, now, build)
        elif why is None and differs(recorded.print, now.print):
            return self._reword(recorded, now, build, print_of)
        return None if why is None else self._part(why, old, new)

    def compare_standing(self, at: int, recorded: Told, now: Told | None) -> Parting | None:
        """Compare the operation in which a conversation stood with the present one; None for its end.

        Args:
            at: when it came to stand there.
        """
        if not recorded.sites or (now is not None and not now.sites):
            return None
        old = recorded.sites[-1]
        if now is None:
            return self._part(OVER, old, 0)
        build = self._comparison.build_of(old, at)
        why = self._difference(recorded.sites, now.sites, build)
        if why in (UNKNOWN, OTHER_LOOP) and (old, now.sites[-1]) in self._proven:
            why = None
        if why is None and (recorded.id, recorded.kind or now.kind) != (now.id, now.kind):
            why = ANOTHER_WAY
        return None if why is None else self._part(why, old, now.sites[-1])

    def _difference(self, olds: Sequence[int], news: Sequence[int], build: int) -> str | None:
        difference = self._comparison.difference
        # Of what is recorded the own line tells more than what was drawn before.
        why = difference(olds[-1], news[-1], build)
        if why is not None and why != UNKNOWN:
            return why
        if len(olds) != len(news):
            return DRAWN
        others = [difference(*pair, build) for pair in zip(olds[:-1], news[:-1], strict=True)]
        return next((one for one in (*others, why) if one is not None), None)

    def _says_of_loop(self, recorded: Told, now: Told, build: int, print_of: PrintOf | None) -> bool:
        """Return whether what is said, or was said last, is a loop's value, so that the words tell which."""
        of, pair = self._comparison, (recorded.sites[-1], now.sites[-1])
        if print_of is not None:
            olds, news = of.parts(pair[0]), of.parts(pair[1])
            old_texts, new_texts = (
                Counter(text for loop in loops for text in loop.texts)
                for loops in (of.loops(olds, build), of.loops(news))
            )
            once = [text for text, many in old_texts.items() if many == new_texts[text] == 1]
            chain = [part for part in news if isinstance(part, Point)]
            said = recorded.print == now.print and _text_with(now.print, once, chain, print_of)
            (self._proven.add if said else self._proven.discard)(pair)
        return pair in self._proven

    def _step_differs(self, recorded: Told, now: Told, build: int) -> str | None:
        (was, _, old), (is_now, _, new) = recorded.print.partition(" "), now.print.partition(" ")
        called = was if was == is_now else self._comparison.alignment(build).name_of(was)
        if was and is_now and called != is_now:
            return ANOTHER_FUNCTION
        if old and new:
            return OTHER_ARGUMENTS if old != new else None
        # No plain value is among the arguments, so what is written has to tell.
        before, after = (self._comparison.parts(told.sites[-1])[-1] for told in (recorded, now))
        others = isinstance(before, Point) and isinstance(after, Point) and before.blank != after.blank
        return OTHER_ARGUMENTS if others and was and is_now else None

    def _reword(self, recorded: Told, now: Told, build: int, print_of: PrintOf | None) -> Parting | None:
        """Note other words at the same place, if the sources say why these are others."""
        old, new, of = recorded.sites[-1], now.sites[-1], self._comparison
        olds = [part for part in of.parts(old) if isinstance(part, Point)]
        news = [part for part in of.parts(new) if isinstance(part, Point)]
        words = [word for part in olds for word in part.words]
        was, is_now = of.line_of(old), of.line_of(new)
        if olds and news and crossed(olds[-1], news[-1]):
            return self._part(CROSSED, old, new)
        alignment = of.alignment(build)
        old_text = new_text = None
        if is_data := words == [word for part in news for word in part.words]:
            old_text = of.said(old, recorded.print, alignment.was_said, print_of, build)
            new_text = of.said(new, now.print, alignment.is_said, print_of)
        if not is_data or (has_letters(words) and not (old_text and new_text)):
            self.reworded[was, is_now] = None
            return None
        was, is_now = attrs.evolve(was, words=old_text or ""), attrs.evolve(is_now, words=new_text or "")
        alike = len(olds) != len(news) or all(map(used_alike, olds, news))
        if old_text and new_text and alike:
            # The old words are gone, the new ones are new, and they stand where the old ones stood.
            places = alignment.was_said[old_text] == alignment.is_said[new_text]
            if places and old_text not in alignment.is_said and new_text not in alignment.was_said:
                self.reworded[was, is_now] = None
                return None
        self.parted = Parting(OTHER_DATA, was, is_now)
        return self.parted

    def part(self, because: str) -> Parting:
        """Note that code and journal part for another reason, at the lines that were compared last."""
        return self._part(because, *self._last)

    def _part(self, because: str, old: int, new: int) -> Parting:
        of = self._comparison
        self.parted = Parting(because, of.line_of(old), of.line_of(new))
        return self.parted


def _text_with(print: str, texts: Iterable[str], chain: Sequence[Point], print_of: PrintOf) -> str | None:
    """Return the text that is said: one of these, or one within another text of the calls."""
    words = (word for part in chain for word in part.words)
    around = dict.fromkeys(["{}", *(word for word in words if word.count("{}") == 1)])
    return next((one for one in texts for word in around if print_of(word.replace("{}", one)) == print), None)


def differs(recorded: str, now: str) -> bool:
    """Return whether two fingerprints tell that an operation has other arguments than before.

    A fingerprint is a name and a digest, or either alone; what one of the two doesn't say is not compared.
    """
    if recorded == now:
        return False
    one, other = recorded.partition(" "), now.partition(" ")
    return any(mine and theirs and mine != theirs for mine, theirs in zip(one, other, strict=True))
