"""Which translations are of what their sources say now.

    python -m tests.docs.translations                    list those that are not
    python -m tests.docs.translations docs/fa/README.md  say that this one is, once it is translated anew

A translation's first line names its source, and the SHA-256 of the text that was translated.
"""

from __future__ import annotations

import os.path
import re
import sys
from hashlib import sha256
from pathlib import Path
from typing import Final

import attrs

ROOT: Final = Path(__file__).parents[2]
FOLDER: Final = ROOT / "docs" / "fa"

_HEAD: Final = re.compile(r"\A<!-- translated from (?P<source>[\w./-]+), sha256 (?P<sum>\w+) -->\n")
_FENCE: Final = re.compile(r"(?ms)^ *```(?P<kind>[^\n]*)\n.*?^ *```$")
_INCLUDED: Final = re.compile(r"^```\{literalinclude\} (\S+)")
# Fences; code in a sentence; the end of a quoted sentence.
_TYPED: Final = re.compile(
    r"(?ms)^ *```.*?^ *```$|\u200e?`(?P<code>[^`\n]+)`\u200e?|(?P<said>[A-Za-z0-9][.?!]+)\u200e?(?=»)"
)
_MARK: Final = "\u200e"  # left-to-right mark: shows nothing, and counts as a Latin letter


@attrs.frozen
class Translation:
    """A page in another language, and the page that it says."""

    page: Path
    text: str
    source: Path
    sum: str

    @classmethod
    def read(cls, page: Path, root: Path = ROOT) -> Translation:
        """Return the translation that a file holds."""
        text = page.read_text(encoding="utf-8")
        head = _HEAD.match(text)
        if head is None:
            form = "<!-- translated from docs/PAGE.md, sha256 SUM -->"
            raise ValueError(f"{page.relative_to(root)}: the first line has to be {form}")
        return cls(page, text, root / head["source"], head["sum"])

    @property
    def sum_now(self) -> str:
        """The sum of what the source says now."""
        return sum_of(self.source)

    def renewed(self) -> str:
        """Return the page's text with the sum of what the source says now, and with its marks."""
        return marked(self.text.replace(self.sum, self.sum_now, 1))


def sum_of(page: Path) -> str:
    """Return the sum of a page's text; how its lines end doesn't matter."""
    return sha256(page.read_text(encoding="utf-8").encode()).hexdigest()


def translations() -> list[Translation]:
    """Return all that there are."""
    return [Translation.read(page) for page in sorted(FOLDER.rglob("*.md"))]


def advice(one: Translation, root: Path = ROOT) -> str:
    """Return what to do about a translation of an older text."""
    page, source = one.page.relative_to(root), one.source.relative_to(root)
    return (
        f"{source} has changed since {page} was translated from it: translate the change, which "
        f"`git log -p {source}` shows, then run `python -m tests.docs.translations {page}`"
    )


def code_of(page: Path, text: str) -> list[str]:
    """Return a page's code blocks; a file that is shown is named by its path from the root."""
    found = [fence[0] for fence in _FENCE.finditer(text) if fence["kind"] not in ("{toctree}", "{include}")]
    return [
        _INCLUDED.sub(lambda file: f"```shows {os.path.normpath(page.parent / file[1])}", block)
        for block in found
    ]


def marked(text: str) -> str:
    """Return a page's text with marks where signs at the edge of Latin text would change sides.

    The site isolates code by itself; a forge doesn't, and shows `/cancel` with its slash at the other end.
    """

    def mark(found: re.Match[str]) -> str:
        if code := found["code"]:
            before, after = ("" if edge.isalnum() else _MARK for edge in (code[0], code[-1]))
            return f"{before}`{code}`{after}"
        return f"{found['said']}{_MARK}" if found["said"] else found[0]

    return _TYPED.sub(mark, text)


def prose_of(text: str) -> str:
    """Return a page's text without code, comments and where its links lead."""
    text = re.sub(r"(?s)<!--.*?-->", "", _FENCE.sub("", text))
    return re.sub(r"\]\([^)]*\)", "]", re.sub(r"`[^`]*`", "`", text))


def main(pages: list[str]) -> int:
    for page in pages:
        one = Translation.read(ROOT / page)
        one.page.write_text(one.renewed(), encoding="utf-8")
    due = [advice(one) for one in translations() if one.sum != one.sum_now]
    print("\n".join(due) or "all translations are of what their sources say now")
    return bool(due)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
