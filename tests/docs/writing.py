"""What is written from the code: the API's tables, the wire, our words' template, drawings, the tutorial.

    python -m tests.docs.writing        write it anew

`test_written` says so when it is due.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Final

import attrs

from tests.docs import shapes, summaries, tables
from tests.docs.pictures import PICTURES
from triobot import Texts

ROOT: Final = Path(__file__).parents[2]
TEMPLATE: Final = ROOT / "triobot" / "locale" / "triobot.pot"

_HEAD: Final = """\
# What triobot says by itself. Texts.translated(translate) takes the translations.
msgid ""
msgstr ""
"Content-Type: text/plain; charset=UTF-8\\n"
"Content-Transfer-Encoding: 8bit\\n"
"""


def template() -> str:
    """Return the gettext template of the runtime's words."""
    return "\n".join([_HEAD, *_messages()])


def _messages() -> Iterator[str]:
    for name, text in attrs.asdict(Texts.english()).items():
        flag = "#, python-brace-format\n" if "{" in text else ""
        quoted = text.replace("\\", "\\\\").replace('"', '\\"')
        yield f'#. Texts.{name}\n{flag}msgid "{quoted}"\nmsgstr ""\n'


SHOWING: Final = [*(ROOT / "docs").rglob("tutorial/[01]*.md"), ROOT / "docs" / "libraries.md"]
SHOWN: Final = re.compile(
    r"(?ms)^(?P<head><!-- (?P<file>examples/\S+\.py)(?:, lines (?P<first>\d+)-(?P<last>\d+))?"
    r"(?:, (?P<function>test_\w+))?(?:, new (?P<new>[\d,-]+))? -->\n```py\n).*?^```$"
)
"""A file that a page shows: in a forge and in an editor, too."""


def with_code(page: Path) -> str:
    """Return a page's text with the code that its files have now."""

    def shown(match: re.Match[str]) -> str:
        code = (ROOT / match["file"]).read_text(encoding="utf-8")
        lines = code.splitlines(keepends=True)
        if match["first"]:
            lines = lines[int(match["first"]) - 1 : int(match["last"])]
        if (name := match["function"]) is not None:
            found = next(one for one in ast.parse(code).body if getattr(one, "name", "") == name)
            lines = lines[found.lineno - 1 : found.end_lineno]
        return f"{match['head']}{''.join(lines).rstrip()}\n```"

    return SHOWN.sub(shown, page.read_text(encoding="utf-8"))


WRITTEN: Final[Mapping[Path, Callable[[], str]]] = {
    TEMPLATE: template,
    **summaries.WRITTEN,
    shapes.PAGE: shapes.page,
    **tables.WRITTEN,
    **PICTURES,
    **{page: partial(with_code, page) for page in SHOWING},
}
"""What returns the text that has to be in each file."""


if __name__ == "__main__":
    for path, text in WRITTEN.items():
        path.write_text(text(), encoding="utf-8")
        print(path.relative_to(ROOT))
