"""Ways into a chat that are not the platform's.

`address` is a conversation's door to other chats; `calls` are what comes through the doors, signals included,
`elsewhere` is where that arrives.
"""
