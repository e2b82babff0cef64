"""What is written from the code: the API's tables, the emulator's wire, the template of our words, drawings.

    python -m tests.docs.writing        write it anew

`test_written` says so when it is due.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

import attrs

from tests.docs import shapes, summaries
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


WRITTEN: Final[Mapping[Path, Callable[[], str]]] = {
    TEMPLATE: template,
    **summaries.WRITTEN,
    shapes.PAGE: shapes.page,
    **PICTURES,
}
"""What returns the text that has to be in each file."""


if __name__ == "__main__":
    for path, text in WRITTEN.items():
        path.write_text(text(), encoding="utf-8")
        print(path.relative_to(ROOT))
