"""What routes and waits take; joined with ``|``, ``&`` and ``~``.

Example:
    >>> from triobot.filters import command, message, text
    >>> cancel = command("cancel") | text("cancel", "stop")
"""

from __future__ import annotations

from .conversations.filters import Command as Command
from .conversations.filters import Filter as Filter
from .conversations.filters import by as by
from .conversations.filters import command as command
from .conversations.filters import in_chat as in_chat
from .conversations.filters import join as join
from .conversations.filters import leave as leave
from .conversations.filters import message as message
from .conversations.filters import press as press
from .conversations.filters import pressed as pressed
from .conversations.filters import signal as signal
from .conversations.filters import text as text
from .conversations.filters import when as when
from .conversations.flooding import flooding as flooding
from .conversations.paid import paid as paid
