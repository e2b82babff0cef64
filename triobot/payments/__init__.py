"""Payments: the ledger of requested payments, and the task that verifies payments.

The modules `entry`, `facts`, `table`, `ledger` and `schedule` make the decisions, with the time as an
argument. The other modules carry the decisions out. The store keeps the payments' rows, the outbox sends
requests to the platform, and conversations and asides receive verified payments.

An *entry* is one payment in the ledger. A *fact* is an event in the payment's life, such as a callback. A
*move* is the change of an entry by a fact; a *duty* is an action that the move requires, such as a verify.
The *taker* is the conversation or aside that gets the payment. An *examination* verifies a payment or
inquires about it. The *sweep* examines all open payments from time to time.
"""
