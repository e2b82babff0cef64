"""Payments: the ledger of requested payments, and the task that verifies payments.

`entry`, `facts`, `table`, `ledger` and `schedule` decide, with the time as an argument; the other modules act
on the decisions. The store keeps the payments' rows, the outbox sends requests to the platform, and
conversations and asides receive verified payments.
"""
