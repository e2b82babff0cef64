"""A Trio-native runtime for messenger bots: one coroutine per chat.

This is the author's whole surface. `triobot.filters` says which events a route takes; `triobot.client` is the
platform's client alone; `triobot.wire` is its interface as values.
"""

from __future__ import annotations

from .bot import Address as Address
from .bot import Bot as Bot
from .broadcast import Broadcast as Broadcast
from .clock import SystemClock as SystemClock
from .conversations.blocks import ChatChannel as ChatChannel
from .conversations.blocks import ChatEvent as ChatEvent
from .conversations.blocks import ChatNursery as ChatNursery
from .conversations.blocks import Scope as Scope
from .conversations.charges.paid import Paid as Paid
from .conversations.chat import Chat as Chat
from .conversations.data.slots import Data as Data
from .conversations.data.slots import Key as Key
from .conversations.doors.calls import Signal as Signal
from .conversations.questions.buttons import NO_KEYBOARD as NO_KEYBOARD
from .conversations.questions.buttons import Buttons as Buttons
from .conversations.questions.buttons import Keyboard as Keyboard
from .conversations.questions.forms import Field as Field
from .conversations.questions.live import Live as Live
from .conversations.routes.filters import Command as Command
from .conversations.routes.filters import fold as fold
from .conversations.routes.router import Router as Router
from .conversations.running.waits import Otherwise as Otherwise
from .conversations.texts import Texts as Texts
from .failures import Failure as Failure
from .resources import Provided as Provided
from .resources import Resource as Resource
from .resources import provide as provide
from .seams import Alarm as Alarm
from .seams import BroadcastStatus as BroadcastStatus
from .secrets import Secret as Secret
from .settings import Settings as Settings
from .values import formerly as formerly
from .values import recorded as recorded
from .webhook.limits import Limits as Limits
from .wire.content import Audio as Audio
from .wire.content import Contact as Contact
from .wire.content import Content as Content
from .wire.content import File as File
from .wire.content import Image as Image
from .wire.content import Location as Location
from .wire.content import Media as Media
from .wire.content import Video as Video
from .wire.content import Voice as Voice
from .wire.events import Event as Event
from .wire.events import Join as Join
from .wire.events import Leave as Leave
from .wire.events import Message as Message
from .wire.events import Press as Press
from .wire.events import Sender as Sender
from .wire.events import Submission as Submission
from .wire.events import UnknownEvent as UnknownEvent
from .wire.ids import ChatId as ChatId
from .wire.results import Sent as Sent

__version__ = "0.1.0"
