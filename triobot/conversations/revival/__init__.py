"""Conversations leave memory, survive the process, and come back.

`stored` is how one begins and what it left in the store, `reviving` brings it back with what waits for it,
`care` parks what takes the process down again and again.
"""
