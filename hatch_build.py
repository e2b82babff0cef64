"""Completes the package's metadata when it is built: links that hold away from the repository.

README links to files beside it. On an index page there are none, so each such link becomes an address below
the project's own, at the tag of this version. The project's address is one setting, in `pyproject.toml`: as
long as it is empty, a link becomes its text, an image goes, and no addresses of the project are told.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

# Where a forge shows what a tag had: a page, a folder's page, and a file as it is.
SHAPES = {
    "github": ("blob/{tag}/{path}", "tree/{tag}/{path}", "raw/{tag}/{path}", "issues"),
    "gitlab": ("-/blob/{tag}/{path}", "-/tree/{tag}/{path}", "-/raw/{tag}/{path}", "-/issues"),
}

_CODE = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
_LINK = re.compile(
    r"(?P<image>!?)\[(?P<text>[^\[\]]*)\]\((?![a-z]+:|#)(?P<path>[^)\s#]+)(?P<part>#[^)\s]*)?\)"
)


class Addresses:
    """Where the project's files are for people who have only the package."""

    def __init__(self, address: str, forge: str, version: str, root: Path) -> None:
        if address and (forge not in SHAPES or not address.startswith("https://") or address.endswith("/")):
            raise ValueError(
                "pyproject.toml, [tool.hatch.metadata.hooks.custom]: address is to begin with https:// and "
                f"to end without a slash, and forge to be one of {', '.join(SHAPES)}"
            )
        self._address = address
        self._forge = forge
        self._tag = f"v{version}"
        self._root = root

    def file(self, path: str, *, raw: bool = False) -> str:
        """Say where a file or a folder of the repository can be read."""
        page, folder, as_it_is, _ = SHAPES[self._forge]
        shape = as_it_is if raw else folder if (self._root / path).is_dir() else page
        return f"{self._address}/{shape.format(tag=self._tag, path=path)}"

    def urls(self) -> dict[str, str]:
        """Return what an index lists as the project's links."""
        if not self._address:
            return {}
        return {
            "Homepage": self._address,
            "Documentation": self.file("docs"),
            "Changelog": self.file("CHANGELOG.md"),
            "Security": self.file("SECURITY.md"),
            "Issues": f"{self._address}/{SHAPES[self._forge][3]}",
        }

    def readme(self, text: str) -> str:
        """Return the text with links that need no repository around them."""
        parts = _CODE.split(text)
        return "".join(
            part if number % 2 else _LINK.sub(self._link, part) for number, part in enumerate(parts)
        )

    def _link(self, found: re.Match[str]) -> str:
        image, text, path = found["image"], found["text"], found["path"]
        if not self._address:
            return "" if image else text
        return f"{image}[{text}]({self.file(path, raw=bool(image))}{found['part'] or ''})"


class Completed(MetadataHookInterface):
    """Gives the build its README and its addresses."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Add what `pyproject.toml` calls dynamic."""
        root = Path(self.root)
        at = Addresses(self.config["address"], self.config["forge"], metadata["version"], root)
        text = at.readme((root / "README.md").read_text(encoding="utf-8"))
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
        metadata["urls"] = at.urls()
