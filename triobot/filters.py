"""Filters of routes and waits; combine them with ``|``, ``&`` and ``~``.

Examples:
    >>> from triobot.filters import command, message, text
    >>> cancel = command("cancel") | text("cancel", "stop")
"""

from __future__ import annotations

from .conversations.charges.paid import paid as paid
from .conversations.routes.filters import Filter as Filter
from .conversations.routes.filters import by as by
from .conversations.routes.filters import command as command
from .conversations.routes.filters import flooding as flooding
from .conversations.routes.filters import in_chat as in_chat
from .conversations.routes.filters import join as join
from .conversations.routes.filters import kept as kept
from .conversations.routes.filters import leave as leave
from .conversations.routes.filters import message as message
from .conversations.routes.filters import pressed as pressed
from .conversations.routes.filters import signal as signal
from .conversations.routes.filters import text as text
from .conversations.routes.filters import when as when
from .conversations.routes.matching import matches as matches
