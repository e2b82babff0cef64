"""What a chat remembers beyond its conversations.

`slots` are what authors write to, `keeping` is how they are kept, `recorded` the names under which the
wire's own values are written down.
"""
