"""Ways into a chat that are not the platform's.

`address` is one chat as others see it, and a conversation's door to other chats; `signals` and `calls` are
what comes through them, `elsewhere` is where that arrives.
"""
