"""The runtime's own words, as one chat is to hear them: the bot's, or made from what the chat keeps."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from .data.slots import Data
from .running.lines import failing_line
from .texts import Texts

log: Final = logging.getLogger("triobot.conversations")

Speech: TypeAlias = Texts | Callable[[Data], Texts]
"""Words for everybody, or what chooses them for a chat."""


def words_for(speech: Speech, data: Mapping[str, str] | None) -> Texts:
    """Choose the words for a chat that keeps this; in English when the author's choice fails."""
    if isinstance(speech, Texts):
        return speech
    try:
        return speech(Data(data or {}))
    except Exception as error:
        # Whoever asks is about to say something else, which must not fail with it.
        kind, line = type(error).__name__, failing_line(error.__traceback__)
        log.error("the bot's texts= failed with %s at %s: its words are English", kind, line)  # noqa: TRY400
        return Texts.english()
