"""Conversations leave memory, survive the process, and come back.

`stored` is what a conversation left in the store, `reviving` brings it back, `care` parks what takes the
process down again and again.
"""
