"""What stands in front of every request: the same headers each time, so that they are written out once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, final

from ..http import Origin
from ..http.outgoing import encode_head
from ..secrets import Secret
from .address import BaseUrl

FORM: Final = "application/x-www-form-urlencoded"


@final
class FormHeads:
    """The heads of requests to the platform; the token is in them, and in nothing that can be shown.

    Attributes:
        origin: where they go.
    """

    def __init__(self, base: BaseUrl, token: Secret, further: Mapping[str, str]) -> None:
        root = base.root
        port = root.port or {"https": 443, "http": 80}[root.scheme]
        self.origin: Final = Origin(root.scheme, root.raw_host.decode("ascii"), port)
        self._base = base
        self._token = token
        self._further = dict(further)
        self._written: dict[str, bytes] = {}

    def headers(self, content_type: str, length: int) -> dict[str, str]:
        """The headers of a request with this body."""
        return {
            "Host": self._base.root.netloc.decode("ascii"),
            **self._further,
            "token": self._token.reveal(),
            "Content-Type": content_type,
            "Content-Length": str(length),
        }

    def message(self, path: str, form: bytes) -> bytes:
        """A whole request that posts this form to an operation's path."""
        start = self._written.get(path)
        if start is None:
            pairs = [(name.encode(), value.encode()) for name, value in self.headers(FORM, 0).items()]
            head = encode_head(b"POST", self._base.operation(path).raw_path, pairs)
            # The length is the last header; it and the empty line are put behind for each.
            start = self._written[path] = head.removesuffix(b"0\r\n\r\n")
        return b"%s%d\r\n\r\n%s" % (start, len(form), form)
