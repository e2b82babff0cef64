"""What a chat remembers beyond its conversations.

`slots` are what authors write to, and one conversation's view of them; `keeping` is how they are kept.
"""
