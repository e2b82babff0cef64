"""HTTP in: the platform's events, from the socket into the store.

Read it in the order in which an event passes: `serving` (our own listener) or `app` (hypercorn and Quart), of
which neither loads the other; `endpoint` (checks each request), `exchange` and `answers` (one request),
`inbox` (the event).
`limits` holds every bound, `secrets` compares the secret in the path, `kept_secrets` are the store's.
"""
