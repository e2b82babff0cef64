"""The error of both readers for bytes that break HTTP's rules."""

from __future__ import annotations

from typing import final


@final
class MalformedError(Exception):
    """The bytes break the rules of HTTP/1.1. Their sender's fault; the connection must be closed.

    Attributes:
        rule: the broken rule, in words, without the bytes.
        status: the HTTP status that a server answers with.
    """

    def __init__(self, rule: str, status: int = 400) -> None:
        super().__init__(rule, status)
        self.rule = rule
        self.status = status

    def __str__(self) -> str:
        return self.rule
