"""Questions of several presses in one message: a page of a list, a day, a tree of choices.

>>> from triobot.widgets import calendar, confirm
>>> async def book(chat: Chat) -> None:
...     today = chat.now(TEHRAN).date()
...     day = await calendar(chat, "Which day?", first=today, last=today + timedelta(days=60))
...     if await confirm(chat, f"{day:%d %B}, then?"):
...         await chat.send("Booked.")

Each is an ordinary sub-conversation, a loop around `Board.choose`, and uses nothing that bots can't: where
one doesn't fit, copy its function and change it. So they survive what any question survives: after a restart
the same page is open. Every tap counts, as what stood on the screen.

Raises, from each, as `Chat.choose`; what makes no question, such as pages without rows, is a
``LocalProtocolError``, and the calling program's fault.

Cancellation, of each: as a question's. A block or an interrupt around it ends it, and its buttons go.

Read in this order: `lists`, then `calendars`.
"""

from __future__ import annotations

from .calendars import GREGORIAN as GREGORIAN
from .calendars import JALALI as JALALI
from .calendars import CalendarSystem as CalendarSystem
from .calendars import calendar as calendar
from .calendars import date_time as date_time
from .lists import Menu as Menu
from .lists import confirm as confirm
from .lists import menu as menu
from .lists import multi_select as multi_select
from .lists import pager as pager
from .lists import rating as rating
