"""Ways into a chat that are not the platform's.

`refs` is a conversation's door to other places; `calls` are what comes through the doors, signals included,
`elsewhere` is where that arrives.
"""
