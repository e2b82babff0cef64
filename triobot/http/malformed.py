"""What the two readers raise when the other side breaks HTTP's own rules."""

from __future__ import annotations

from typing import final


@final
class MalformedError(Exception):
    """The bytes are no HTTP/1.1 that can be trusted. Their sender's fault; the connection must be closed.

    Attributes:
        rule: what was broken, in words, without the bytes.
        status: what a server answers to it.
    """

    def __init__(self, rule: str, status: int = 400) -> None:
        super().__init__(rule, status)
        self.rule = rule
        self.status = status

    def __str__(self) -> str:
        return self.rule
