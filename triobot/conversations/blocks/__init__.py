"""What shapes a conversation's code, each with its records: blocks that end by themselves, and steps.

`methods` are those of a chat, `scopes` and `nursery` what they open, `steps` side effects that are done
once, `replayed` what needs no record to be the same again.
"""
