"""Conversations leave memory, survive the process, and are revived from the store.

`stored` reads and writes a conversation's beginning and its journal. `reviving` loads a chat's conversations
and its waiting events. `code` knows the running code, and `changed` compares a journal of other code with it.
`crash_counts` counts crashes, and parks conversations that crash the process repeatedly.
"""
