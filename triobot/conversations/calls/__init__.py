"""Access to chats and rooms for code, operators and other programs, without the platform.

`refs` lets a conversation use other places. `signals` defines the signals, calls and orders that reach a chat
through the inbox, and `chat_calls` stores these inputs in the inbox.
"""
