"""A Trio-native runtime for messenger bots: one coroutine per chat.

This is the author's whole surface. `triobot.filters` says which events a route takes; `triobot.client` is the
platform's client alone; `triobot.wire` is its interface as values.
"""

from __future__ import annotations

from .address import Address as Address
from .bot import Bot as Bot
from .broadcast import Broadcast as Broadcast
from .clock import SystemClock as SystemClock
from .conversations.buttons import NO_KEYBOARD as NO_KEYBOARD
from .conversations.buttons import Buttons as Buttons
from .conversations.buttons import Keyboard as Keyboard
from .conversations.chat import Chat as Chat
from .conversations.data import Data as Data
from .conversations.data import Key as Key
from .conversations.filters import Command as Command
from .conversations.filters import fold as fold
from .conversations.forms import Field as Field
from .conversations.live import Live as Live
from .conversations.nursery import ChatNursery as ChatNursery
from .conversations.paid import Paid as Paid
from .conversations.routes import Router as Router
from .conversations.scopes import Scope as Scope
from .conversations.signals import Signal as Signal
from .conversations.texts import Texts as Texts
from .conversations.waits import Otherwise as Otherwise
from .jobs import BroadcastStatus as BroadcastStatus
from .journal.between import ChatChannel as ChatChannel
from .journal.between import ChatEvent as ChatEvent
from .resources import Provided as Provided
from .resources import Resource as Resource
from .resources import provide as provide
from .seams import Alarm as Alarm
from .secrets import Secret as Secret
from .settings import Settings as Settings
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
