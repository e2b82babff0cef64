"""Revival of conversations from the store, after an eviction or a restart.

`stored` reads and writes a conversation's beginning and its journal. `reviving` loads a chat's conversations,
and delivers the chat's waiting events. `code` describes the running code. `changed` takes journals that other
code recorded, and compares these journals with the running code. `crash_counts` counts crashes, and parks
conversations that crash the process repeatedly.
"""
