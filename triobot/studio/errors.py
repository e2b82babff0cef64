"""The error for failed requests about a conversation's past."""

from __future__ import annotations

from typing import final

from ..errors import TriobotError


@final
class TravelError(TriobotError):
    """A request about a conversation's past can't be answered; the text contains the reason.

    Attributes:
        gone: whether the pass or branch is gone, but can be opened again.
        refused: whether the request was understood, but is impossible in this pass or branch.
    """

    def __init__(self, why: str, *, gone: bool = False, refused: bool = False) -> None:
        super().__init__(why)
        self.gone = gone
        self.refused = refused
