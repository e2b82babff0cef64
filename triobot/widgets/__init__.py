"""Questions that take several presses in one message: a paged list, a calendar, a tree of choices.

>>> from triobot.widgets import calendar, confirm
>>> async def book(chat: Chat) -> None:
...     today = chat.now(TEHRAN).date()
...     day = await calendar(chat, "Which day?", first=today, last=today + timedelta(days=60))
...     if await confirm(chat, f"{day:%d %B}, then?"):
...         await chat.send("Booked.")

Each widget is an ordinary sub-conversation, a loop around `Board.choose`, and uses only the public API. To
change a widget, copy its function. Widgets survive a restart as any question does: the same page of a list is
shown afterwards. Each tap counts as the button that the person saw.

Each widget raises the errors of `Chat.choose`. Arguments from which no question can be made, such as an empty
list of options, raise ``LocalProtocolError``: the calling program has an error.

*Cancellation:* as for a question. A block or an interrupt around the widget ends the widget and removes its
buttons.

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
