"""The runtime's own words in one chat: the bot's texts, or what the bot makes of what the chat keeps."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias, cast

from .data import Data
from .lines import failing_line
from .texts import Texts

log: Final = logging.getLogger("triobot.conversations")

TextsOf: TypeAlias = Callable[[Data], Texts]
"""Chooses the runtime's words for a chat by what that keeps, such as its language."""


def words_for(texts: Texts | TextsOf, kept: Mapping[str, str] | None) -> Texts:
    """The words for a chat; English ones if the author's choice fails.

    Args:
        kept: what the chat keeps, by key; None if it keeps nothing, or no key was declared.
    """
    if isinstance(texts, Texts):
        return texts
    try:
        chosen = cast("object", texts(Data(kept or {})))
    except Exception as error:
        log.error("texts= failed: %s at %s", type(error).__name__, failing_line(error.__traceback__))  # noqa: TRY400  # the text may hold what a user wrote
    else:
        if isinstance(chosen, Texts):  # an author may have forgotten a return
            return chosen
        log.error("texts= gave a %s and no Texts", type(chosen).__name__)
    return Texts.english()
