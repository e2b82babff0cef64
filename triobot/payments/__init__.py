"""Money: the ledger of what was asked for, and the task that verifies it.

`entry`, `facts`, `table`, `ledger` and `schedule` decide, and take the time as an argument; the rest carries
out what they say. No package knows another: the store keeps rows, the outbox asks the platform, and
conversations and asides get what was verified.
"""
