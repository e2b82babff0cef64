"""What is written from the code: the reference's signatures, the emulator's wire, the template of our words.

    python -m tests.docs.writing        write it anew

`test_written` says so when it is due.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import attrs

from tests.docs import shapes, signatures
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


def written() -> dict[Path, str]:
    """Return what has to be in each file."""
    return {TEMPLATE: template(), signatures.PAGE: signatures.page(), shapes.PAGE: shapes.page()}


if __name__ == "__main__":
    for path, text in written().items():
        path.write_text(text, encoding="utf-8")
        print(path.relative_to(ROOT))
