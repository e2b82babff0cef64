"""How many words the pages have, as `wc -w` counts, and how many of them are written from code.

python -m tests.docs.words      print every page; fails above the limit
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from tests.docs.writing import SHOWN

ROOT: Final = Path(__file__).parents[2]
LIMIT: Final = 40_000
"""Words by hand of all pages together."""

_WHOLE: Final = {"docs/alarms.md", "docs/ledger.md"}
"""Pages of which `tests.payments.drawing` writes every word."""
_PART: Final = re.compile(
    r"(?ms)^<!-- (?:written|way|measured): (?P<name>[\w.-]+) -->\n.*?^<!-- end(?: of (?P=name))? -->$"
)


class Count(NamedTuple):
    """Words of a page."""

    page: str
    by_hand: int
    generated: int


def pages() -> Iterator[Path]:
    """Yield the pages that are counted; decisions and translations are not."""
    yield from (ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"))
    yield ROOT / "deploy" / "README.md"
    yield ROOT / "changes" / "README.md"
    for page in sorted((ROOT / "docs").rglob("*.md")):
        if page.relative_to(ROOT / "docs").parts[0] not in ("decisions", "fa", "project"):
            yield page


def count(page: Path, root: Path = ROOT) -> Count:
    """Count the words of a page."""
    name, text = str(page.relative_to(root)), page.read_text(encoding="utf-8")
    all_words = len(text.split())
    by_hand = 0 if name in _WHOLE else len(_PART.sub("", SHOWN.sub("", text)).split())
    return Count(name, by_hand, all_words - by_hand)


def main() -> int:
    """Print the table."""
    counts = [count(page) for page in pages()]
    print(f"{'by hand':>8} {'generated':>9}  page")
    for one in counts:
        print(f"{one.by_hand:8,} {one.generated:9,}  {one.page}")
    by_hand = sum(one.by_hand for one in counts)
    print(f"{by_hand:8,} {sum(one.generated for one in counts):9,}  all; by hand at most {LIMIT:,}")
    return int(by_hand > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
