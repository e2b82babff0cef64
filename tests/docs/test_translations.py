"""A translation has its source's code and parts, and is typed as Persian is."""

from __future__ import annotations

import os.path
import re
import unicodedata
from pathlib import Path
from typing import Final

import pytest

from tests.docs.translations import (
    FOLDER,
    ROOT,
    Translation,
    advice,
    code_of,
    marked,
    prose_of,
    sum_of,
    translations,
)

ALL: Final = translations()
every_one = pytest.mark.parametrize("one", ALL, ids=lambda one: str(one.page.relative_to(FOLDER)))

# Pages that a native reader has read, such as "README.md". They need not say the sentence any more.
READ: Final[frozenset[str]] = frozenset()
SENTENCE: Final = (
    "> این صفحه ترجمهٔ [متن انگلیسی]({source}) است و هنوز هیچ خوانندهٔ فارسی‌زبانی آن را بازبینی نکرده است.\n"
)

ARABIC: Final = "يكة"  # what other keyboards write for ی, ک and ه


def from_page(one: Translation, path: Path) -> str:
    return os.path.relpath(path, one.page.parent)


def test_a_source_that_has_changed_is_seen(tmp_path: Path) -> None:
    source, page = tmp_path / "page.md", tmp_path / "fa.md"
    source.write_text("Cake.\n", encoding="utf-8")
    page.write_text(f"<!-- translated from page.md, sha256 {sum_of(source)} -->\nکیک.\n", encoding="utf-8")
    one = Translation.read(page, tmp_path)
    assert one.sum == one.sum_now

    source.write_text("Two cakes.\n", encoding="utf-8")

    assert one.sum != one.sum_now
    assert "page.md has changed since fa.md was translated" in advice(one, tmp_path)
    page.write_text(one.renewed(), encoding="utf-8")
    assert Translation.read(page, tmp_path).sum == sum_of(source)


def test_a_page_without_its_source_is_refused(tmp_path: Path) -> None:
    page = tmp_path / "fa.md"
    page.write_text("# کیک\n", encoding="utf-8")

    with pytest.raises(ValueError, match=r"fa\.md: the first line has to be"):
        Translation.read(page, tmp_path)


@every_one
def test_its_code_is_its_source_s(one: Translation) -> None:
    """Which is run, so this need not be."""
    assert code_of(one.page, one.text) == code_of(one.source, one.source.read_text(encoding="utf-8"))


def test_the_same_file_is_shown_from_another_folder() -> None:
    here, there = ROOT / "docs" / "a.md", ROOT / "docs" / "fa" / "a.md"
    shown = "```{literalinclude} ../b.py\n:lines: 1\n```\n"

    assert code_of(here, shown) == code_of(there, shown.replace("..", "../.."))
    assert code_of(here, shown) != code_of(there, shown)
    assert code_of(here, "```{toctree}\na\n```\n") == []


@every_one
def test_it_has_the_parts_of_its_source(one: Translation) -> None:
    """Every heading, item and row, in this order."""

    def parts(text: str) -> list[str]:
        fenced = re.sub(r"(?ms)^```.*?^```$", "", text)
        return re.findall(r"(?m)^(?:#+(?= )|\||- |\d+\. )", fenced)

    assert parts(one.text) == parts(one.source.read_text(encoding="utf-8"))


@every_one
def test_it_says_first_that_no_native_reader_has_read_it(one: Translation) -> None:
    sentence = SENTENCE.format(source=from_page(one, one.source))
    read = str(one.page.relative_to(FOLDER)) in READ

    assert (re.match(rf".*\n\n# .*\n\n{re.escape(sentence)}", one.text) is None) is read


@every_one
def test_a_link_leads_to_the_translation_where_there_is_one(one: Translation) -> None:
    there = {other.source: other.page for other in ALL if other is not one}
    for link in re.findall(r"\]\((?!https?:)([^)#]+)", one.text):
        path = Path(os.path.normpath(one.page.parent / link))
        assert path not in there, f"{link}: {from_page(one, there[path])}"


@every_one
def test_a_forge_shows_it_right_to_left(one: Translation) -> None:
    """It goes by the first letter of a paragraph, heading or item; code counts, too."""
    text = re.sub(r"(?s)<!--.*?-->|^ *```.*?^ *```$", "", one.text, flags=re.MULTILINE)
    for part in re.split(r"\n\n+|\n(?=- |\d+\. )", text):
        letters = [kind for letter in part if (kind := unicodedata.bidirectional(letter)) in ("L", "R", "AL")]
        assert part.startswith("|") or letters[:1] != ["L"], part


def test_signs_at_the_edge_of_code_keep_their_side() -> None:
    mark = "\u200e"

    assert marked("با `/cancel` و `f()` و `x`") == f"با {mark}`/cancel` و `f()`{mark} و `x`"
    assert marked("«Thank you!»") == f"«Thank you!{mark}»"
    assert marked(marked("«Why?» `--long`")) == marked("«Why?» `--long`")
    assert marked("```sh\n`(a)`\n```\n") == "```sh\n`(a)`\n```\n"


@every_one
def test_its_signs_keep_their_side(one: Translation) -> None:
    page = one.page.relative_to(ROOT)
    assert marked(one.text) == one.text, f"run `python -m tests.docs.translations {page}`"


@every_one
def test_it_is_typed_as_persian_is(one: Translation) -> None:
    prose = prose_of(one.text)

    assert [letter for letter in ARABIC if letter in prose] == []
    assert re.findall(r"\w*[\u0600-\u06ff\u200c][,;?]", prose) == []
    # What is written without a space, and not together either.
    assert re.findall(r"\b(?:ن?می|بی) \w+|\w+ (?:ها|های|هایی|ای)\b", prose) == []
