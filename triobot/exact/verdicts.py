"""Replay with another build: decides whether each current operation is the recorded operation.

The recorded site is compared with the site of the current operation. When the sites match but the texts
differ, the sources must explain the difference.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from functools import partial
from hashlib import blake2b
from typing import Final, NamedTuple, TypeAlias, TypeVar, final

from ..base.frozen import guarded
from .alignment import Accepted, Alignment
from .reading import Reading
from .sites import CODE, SiteLink, Sites
from .sources import Point, Source, above, has_letters, read_source

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
OTHER_VALUES: Final = "what its value goes by is another now"
OTHER_PLACES: Final = "an argument of the route has the place of another one"
CROSSED: Final = "an option has the words of another one"
OTHER_DATA: Final = "its words come from data, and are others"
OVER: Final = "it is over where somebody waited"
NO_OPTION: Final = "{} was chosen, and is no option any more"

_ACCEPTABLE: Final = frozenset({REPLACED, REMOVED, REORDERED, ANOTHER_FUNCTION, OTHER_ARGUMENTS})
"""Reasons that don't count if an author accepts the two lines as the same operation."""

_K = TypeVar("_K")
_Part: TypeAlias = "Point | SiteLink"
PrintOf: TypeAlias = Callable[[str], str]
"""Returns the fingerprint that the current operation would have with the given text."""


@final
@guarded
class SourceLine:
    """Line of an author's source, as people see it.

    Attributes:
        text: the whole line.
        function: enclosing function.
        call: text of the call, without the receiver.
        words: literal texts in the call.
    """

    file: str
    line: int
    text: str
    function: str = ""
    call: str = ""
    words: Sequence[str] = ()

    def __str__(self) -> str:
        return f"{self.file}:{self.line}  {self.text}"


NOWHERE: Final = SourceLine("", 0, "")


@final
@guarded
class Parting:
    """Difference between a recorded operation and the current operation.

    Attributes:
        because: why the operations are not the same.
        was: the recorded line.
        now: the current line.
    """

    because: str
    was: SourceLine
    now: SourceLine

    @property
    def code(self) -> str:
        """Code of the two lines for `triobot journal accept`; empty if the lines can't be accepted."""
        text = f"{self.was.function} {self.was.call} {self.now.call}"
        is_reworded = self.because == OTHER_VALUES and self.was.call != self.now.call
        if not (self.was.call and self.now.call and (is_reworded or self.because in _ACCEPTABLE)):
            return ""
        return blake2b(text.encode("utf-8", "replace"), digest_size=3).hexdigest()

    def __str__(self) -> str:
        or_accept = f". Or: triobot journal accept {self.code}" if self.code else ""
        return f"{self.because}. Recorded at {self.was}; now at {self.now}{or_accept}"


@final
class Comparison:
    """Comparison of a store's old builds with the current build; all conversations share the results.

    Args:
        sites: sites of the store and of the running code.
        builds: digests of each old build's sources, in order. The key is the build's number: the time, in
            wall milliseconds, when the first process with this build started.
        source_of: returns an old source by its digest, or None.
        formerly: current ``module.function`` names by old names.
        accepted: changes that an author has accepted.
    """

    def __init__(
        self,
        sites: Sites,
        builds: Mapping[int, frozenset[str]],
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
        self._readings: dict[tuple[int, int], Sequence[Reading]] = {}
        self._found: dict[tuple[int, int], dict[str, None]] = {}

    def source(self, digest: str) -> Source | None:
        """Return an old or current source by its digest."""
        if digest not in self._sources:
            present = self.sites.present.get(digest)
            read = None if present is None else read_source(*present)
            self._sources[digest] = read or self._source_of(digest)
        return self._sources[digest]

    def alignment(self, build: int) -> Alignment:
        """Return the matches of an old build's points with the current build's points."""
        if len(self.sites.present) != self._present:  # a module was imported after the last call
            self._present = len(self.sites.present)
            self._alignments, self._differences, self._readings = {}, {}, {}
        if build not in self._alignments:
            digests = self._builds.get(build, frozenset())
            same = digests & self.sites.present.keys()
            old, new = self._by_module(digests - same), self._by_module(self.sites.present.keys() - same)
            self._alignments[build] = Alignment(
                old, new, self._formerly, self._accepted, lambda: self._by_module(same).values()
            )
        return self._alignments[build]

    def _by_module(self, digests: Iterable[str]) -> dict[str, Source]:
        return {one.name: one for one in map(self.source, sorted(digests)) if one is not None}

    def build_of(self, site: int, at: int) -> int:
        """Return the build that recorded a site: the newest build up to `at` that has the site's sources.

        Without such a build, return the oldest build that has these sources, or -1.
        """
        digests = {link.digest for link in self.sites.chain(site) if link.digest and link.digest[0] != CODE}
        having = [since for since, sources in self._builds.items() if digests <= sources]
        then = [since for since in having if since <= at]
        return then[-1] if then else having[0] if having else -1

    def is_accepted(self, old: int, new: int) -> bool:
        """Whether an author has accepted the lines of two sites as the same operation."""
        was, now = self.line_of(old), self.line_of(new)
        return (was.function, was.call, now.call) in self._accepted

    # --- chains

    def parts(self, site: int) -> list[_Part]:
        """Return the point of each link of a site; for a link without a point, return the link itself."""
        return [self._part(link) for link in self.sites.chain(site)]

    def _part(self, link: SiteLink) -> _Part:
        source = self.source(link.digest) if link.digest and link.digest[0] != CODE else None
        return (source.at(link.place) if source is not None else None) or link

    def points(self, site: int) -> list[Point]:
        """Return the points of a site; links without a point are left out."""
        return [part for part in self.parts(site) if isinstance(part, Point)]

    def around(self, site: int) -> Sequence[object]:
        """Return the calls of helpers that led to a site, and the for-loops around its innermost point."""
        *calls, inner = self.points(site)
        around = above(inner.function, inner.node)
        return *calls, *(one for one in around if isinstance(one, ast.For | ast.AsyncFor))

    def line_of(self, site: int) -> SourceLine:
        """Return the author's line from which an operation with this site comes."""
        parts = self.parts(site)
        if not parts:
            return NOWHERE
        part = parts[-1]
        if isinstance(part, SiteLink):
            file = self.sites.present.get(part.digest, "?")[0]
            return SourceLine(
                file, part.place[0] or 0, f"in {part.function}: its source is not at hand", part.function
            )
        source = part.function.source
        own = part.function.name, part.call, part.words
        return SourceLine(f"{source.name}.py", part.line, part.text, *own)

    def difference(self, old: int, new: int, build: int) -> str | None:
        """Return the reason why two sites are not the same operation; None for the same operation."""
        key = old, new, build
        if key not in self._differences:
            self._differences[key] = self._difference(old, new, build)
        return self._differences[key]

    def _difference(self, old: int, new: int, build: int) -> str | None:
        parts, others = self.parts(old), self.parts(new)
        if not (parts and others) or any(isinstance(one, SiteLink) and one.digest for one in parts + others):
            return None if self.sites.chain(old) == self.sites.chain(new) else UNKNOWN
        olds, news = self.points(old), self.points(new)
        if old != new:
            alignment, (*calls, inner), (*new_calls, now) = self.alignment(build), olds, news
            to, back = alignment.to(inner), alignment.back(now)
            if to is not now and (to is None or not _is_copy(to, now)):
                if inner.function.source is now.function.source:
                    return ANOTHER_WAY
                if to is None:
                    return REPLACED if back is None else REMOVED
                return INSERTED if back is None else REORDERED
            if self.is_accepted(old, new):
                return None
            if [*map(alignment.to, calls)] != new_calls:
                return None if len(olds) != len(news) and self._is_unique(old, new, build) else ELSEWHERE
        elif build < 0:
            return None
        mine, its = olds[0].function.arguments, news[0].function.arguments
        if any(was != now and (was in its or now in mine) for was, now in zip(mine, its, strict=False)):
            return OTHER_PLACES
        pairs = [*zip(self.readings(old, build), self.readings(new), strict=True)]
        if not all(one.goes_over_like(other) for one, other in pairs):
            return OTHER_VALUES
        ends = [one.ends_like(other) for one, other in pairs]
        return None if all(ends) or (all(ends[:-1]) and self._is_unique(old, new, build)) else OTHER_VALUES

    def readings(self, site: int, build: int = -1) -> Sequence[Reading]:
        """Return the readings of a site's points, in an old build or, by default, in the current build."""
        if (site, build) not in self._readings:
            chain, module = self.points(site), partial(self._module, build)
            functions = [one.function for one in chain]
            self._readings[site, build] = [
                Reading(one, module, functions[number:], is_first=number == 1)
                for number, one in enumerate(chain, 1)
            ]
        return self._readings[site, build]

    def is_elsewhere(self, old: Reading, new: Reading) -> bool:
        """Whether a step now calls a different function.

        True if the function's name now comes from another module, although the old module still defines the
        name. Also true if another expression makes the function.
        """
        was, is_now = ({*one.point.function.source.bound.get(one.point.calls, ())} for one in (old, new))
        left = [one for one in was - is_now if is_now and isinstance(one, tuple)]
        still = any(name in getattr(self._module(-1, module), "bound", ()) for module, name in left)
        return still or (old.point.calls == new.point.calls and not old.steps_like(new))

    def _is_unique(self, old: int, new: int, build: int) -> bool:
        """Whether a line's texts identify the line: the texts are unchanged, and unique in both builds."""
        readings = self.readings(old, build), self.readings(new)
        olds, news = ([one.point for one in ones] for ones in readings)
        return (
            olds[-1].words == news[-1].words
            and (has_letters(olds[-1].words) or olds[-1].calls != "")
            and not all(any(one.is_repeated for one in chain) for chain in (olds, news))
            and not any(one.collects for ones in readings for one in ones)
            and _is_once(olds, self._all(build))
            and _is_once(news, self._all(-1))
        )

    def _all(self, build: int) -> Sequence[Source]:
        digests = self._builds.get(build, self.sites.present)
        return [one for one in map(self.source, digests) if one is not None]

    def _module(self, build: int, name: str) -> Source | None:
        return next((one for one in self._all(build) if _last(one.name) == _last(name)), None)

    def said(
        self, site: int, print: str, texts: Iterable[str], print_of: PrintOf | None, build: int = -1
    ) -> str | None:
        """Find the text that gives an operation the fingerprint `print`; return None if no source has it.

        The operation may have sent a longer text, which a template made around the returned text.
        """
        if print_of is None:
            return None
        chain = [one.point for one in self.readings(site, build)]
        # Try texts found for other conversations first, beginning with the text found last.
        found = self._found.setdefault((site, build), {})
        if not found:
            found |= {text: None for one in self.readings(site, build) for text in (*one.texts, *one.said)}
        far = texts if chain and chain[-1].is_computed else ()
        text = _text_with(print, (*reversed(found), *far), chain, print_of)
        if text is not None:
            found.pop(text, None)
            found[text] = None
        return text


def _last(name: str) -> str:
    return name.rpartition(".")[2]


def _is_copy(one: Point, other: Point) -> bool:
    """Whether both points are at the same index in functions with the same text."""
    mine, its = one.function, other.function
    return mine.text == its.text and mine.points.index(one) == its.points.index(other)


def _is_once(chain: Sequence[Point], sources: Sequence[Source]) -> bool:
    """Whether a point's texts occur once in the sources, and each helper in its chain is called once."""
    names = [one.function.short for one in chain[1:]]
    return sum(source.said[chain[-1].count_key] for source in sources) == 1 and all(
        sum(source.mentions[name] for source in sources) <= 1 and name[:2] != "__" for name in names
    )


@final
class Side(NamedTuple):
    """Operation, either as it was recorded or as it begins in the current code.

    Attributes:
        print: fingerprint of the arguments.
        sites: sites of all operations that the branch has begun since its last record. The last site is the
            operation's own. Empty if the author's line is unknown.
    """

    id: int | str
    kind: str
    print: str
    sites: Sequence[int]


@final
class Judge:
    """Comparison of one conversation's journal with the current code.

    Attributes:
        reworded: pairs of recorded and current lines with different texts.
        parted: the difference that ended the replay.
    """

    def __init__(self, comparison: Comparison) -> None:
        self._comparison = comparison
        self._proven: set[tuple[object, object]] = set()
        self._last = 0, 0
        self.reworded: dict[tuple[SourceLine, SourceLine], None] = {}
        self.parted: Parting | None = None

    def prepare(self, site: int, at: int) -> None:
        """Match the sources of the build that recorded `site` at time `at` with the current sources."""
        self._comparison.alignment(self._comparison.build_of(site, at))

    def compare(self, at: int, recorded: Side, now: Side, print_of: PrintOf | None = None) -> Parting | None:
        """Compare a record with the operation that takes the record now; return the difference, or None.

        Args:
            at: the record's time.
        """
        if not recorded.sites or not now.sites:
            return None
        build = self._comparison.build_of(recorded.sites[-1], at)
        old, new = self._last = recorded.sites[-1], now.sites[-1]
        why = self._difference(recorded, now, build, print_of)
        if why == UNKNOWN and (recorded[:3] == now[:3]) and (now.print or (old, new) in self._proven):
            self._proven.add((old, new))
            return None
        if why is None and now.kind == "step":
            why = self._step_differs(recorded, now, build)
            why = None if why is not None and self._comparison.is_accepted(old, new) else why
        elif why is None and differs(recorded.print, now.print):
            why = self._reword(recorded, now, build, print_of)
        return None if why is None else self._part(why, old, new)

    def compare_standing(self, at: int, recorded: Side, now: Side | None) -> Parting | None:
        """Compare a conversation's recorded wait with the current code's operation.

        Args:
            at: time at which the conversation began to wait.
            now: current operation; None if the conversation has ended now.

        Returns:
            The difference, or None.
        """
        if not recorded.sites or (now is not None and not now.sites):
            return None
        old = recorded.sites[-1]
        if now is None:
            return self._part(OVER, old, 0)
        build = self._comparison.build_of(old, at)
        why = self._difference(recorded, now, build, None)
        if why == UNKNOWN and (old, now.sites[-1]) in self._proven:
            why = None
        if why is None and (recorded.id, recorded.kind or now.kind) != (now.id, now.kind):
            why = ANOTHER_WAY
        return None if why is None else self._part(why, old, now.sites[-1])

    def _difference(self, recorded: Side, now: Side, build: int, print_of: PrintOf | None) -> str | None:
        difference, olds, news = self._comparison.difference, recorded.sites, now.sites
        # Compare the operation's own site first: this site proves more than the sites of earlier operations.
        why = difference(olds[-1], news[-1], build)
        if why is None or why == UNKNOWN:
            if len(olds) != len(news):
                return DRAWN
            others = [difference(*pair, build) for pair in zip(olds[:-1], news[:-1], strict=True)]
            why = next((one for one in (*others, why) if one is not None), None)
        return None if why == OTHER_VALUES and self._words_tell(recorded, now, build, print_of) else why

    def _words_tell(self, recorded: Side, now: Side, build: int, print_of: PrintOf | None) -> bool:
        """Whether the loops around the recorded and the current operation are surely at the same element.

        The proof is the text of this operation, or of the last operation in the same loops.
        """
        of, old, new = self._comparison, recorded.sites[-1], now.sites[-1]
        if now.kind == "step":
            return recorded.print == now.print and " " in now.print
        olds, news = of.readings(old, build), of.readings(new)
        key = of.around(old), of.around(new)
        if print_of is not None:
            was, is_now = (Counter(text for one in ones for text in one.texts) for ones in (olds, news))
            if recorded.print == now.print:
                once = [text for text, many in was.items() if many == is_now[text] == 1]
                if len(of.points(new)) > 1:  # other lines may use the same texts
                    said = of.alignment(build).was_said, of.alignment(build).is_said
                    once = [text for text in once if all(len(one.get(text, ())) < 2 for one in said)]
                proves = _text_with(now.print, once, of.points(new), print_of) is not None
            else:
                proves = self._replaced(recorded, now, build, print_of)
            for one in (key, (old, new)):
                (self._proven.add if proves else self._proven.discard)(one)
        return (old, new) in self._proven or (key in self._proven and olds[-1].ends_like(news[-1]))

    def _step_differs(self, recorded: Side, now: Side, build: int) -> str | None:
        (was, _, old), (is_now, _, new) = recorded.print.partition(" "), now.print.partition(" ")
        of = self._comparison
        called = was if was == is_now else of.alignment(build).name_of(was)
        before, after = of.readings(recorded.sites[-1], build)[-1:], of.readings(now.sites[-1])[-1:]
        pairs = [*zip(before, after, strict=False)]
        if was and is_now and (called != is_now or any(of.is_elsewhere(*pair) for pair in pairs)):
            return ANOTHER_FUNCTION
        if old and new and old != new:
            return OTHER_ARGUMENTS
        others = any(one.point.hands_other(other.point, is_told=bool(old and new)) for one, other in pairs)
        return OTHER_ARGUMENTS if others and was and is_now else None

    def _reword(self, recorded: Side, now: Side, build: int, print_of: PrintOf | None) -> str | None:
        """Add an operation's changed texts to `reworded`; return a reason if these texts are no rewording."""
        old, new, of = recorded.sites[-1], now.sites[-1], self._comparison
        olds, news = of.readings(old, build), of.readings(new)
        before, after = (
            {key: text for one in ones for key, text in one.labels.items()} for ones in (olds, news)
        )
        keyed = {*before, *after, *map(repr, (*before.values(), *after.values()))}
        is_now = news[-1].point
        if olds[-1].point.key != is_now.key:
            return REPLACED
        placed = [_placed(ones, keyed) for ones in (olds, news)]
        is_choice = is_now.op == "choose" or (is_now.op == "fill" and len(placed[0]) == len(placed[1]))
        is_made_otherwise = is_now.op == "choose" and olds[-1].asked != news[-1].asked
        if _crossed(before, after) or (is_choice and (_crossed(*placed) or is_made_otherwise)):
            return CROSSED
        words, now_words = ([word for one in ones for word in one.point.words] for ones in (olds, news))
        if words != now_words or self._replaced(recorded, now, build, print_of, is_open=has_letters(words)):
            self.reworded[of.line_of(old), of.line_of(new)] = None
            return None
        return OTHER_DATA

    def _replaced(
        self, recorded: Side, now: Side, build: int, print_of: PrintOf | None, *, is_open: bool = False
    ) -> bool:
        """Whether the old text is gone from the sources, and a new text is in the same position.

        Args:
            is_open: result for texts that are in no source: a template may have produced these texts.
        """
        old, new, of = recorded.sites[-1], now.sites[-1], self._comparison
        alignment = of.alignment(build)
        was = of.said(old, recorded.print, alignment.was_said, print_of, build)
        is_now = of.said(new, now.print, alignment.is_said, print_of)
        if was is None or is_now is None:
            return is_open
        return (
            alignment.was_said[was] == alignment.is_said[is_now]
            and was not in alignment.is_said
            and is_now not in alignment.was_said
            and of.readings(old, build)[-1].ends_like(of.readings(new)[-1])
        )

    def part(self, because: str) -> Parting:
        """Set and return `parted`: the lines compared last differ, for the reason `because`."""
        return self._part(because, *self._last)

    def _part(self, because: str, old: int, new: int) -> Parting:
        self.parted = Parting(because, *map(self._comparison.line_of, (old, new)))
        return self.parted


def _crossed(before: Mapping[_K, str], after: Mapping[_K, str]) -> bool:
    """Whether a text has moved from one key to another."""
    gone = {text for key, text in before.items() if after.get(key) != text}
    return any(text in gone and before.get(key) != text for key, text in after.items())


def _placed(readings: Sequence[Reading], keyed: Container[str]) -> dict[int, str]:
    """Return the texts that have no key, by their indices."""
    texts = (text for one in readings for text in (*one.texts, *one.said))
    return dict(enumerate(text for text in texts if repr(text) not in keyed))


def _text_with(print: str, texts: Iterable[str], chain: Sequence[Point], print_of: PrintOf) -> str | None:
    """Return the text with this fingerprint: one of `texts`, alone or within a template text of the calls."""
    words = (word for part in chain for word in part.words)
    around = dict.fromkeys(["{}", *(word for word in words if word.count("{}") == 1)])
    return next((one for one in texts for word in around if print_of(word.replace("{}", one)) == print), None)


def differs(recorded: str, now: str) -> bool:
    """Whether two fingerprints prove that an operation has other arguments than before.

    A fingerprint has up to two words: a function's name and a digest, or a digest alone, as in
    `branches.fingerprint`. A word that one fingerprint lacks is not compared.
    """
    if recorded == now:
        return False
    one, other = recorded.partition(" "), now.partition(" ")
    return any(mine and theirs and mine != theirs for mine, theirs in zip(one, other, strict=True))
