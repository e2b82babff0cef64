"""What a chat remembers beyond its conversations.

`slots` are what authors write to, `own` is one conversation's view of them, `keeping` is how they are kept,
`recorded` the names under which the wire's own values are written down.
"""
