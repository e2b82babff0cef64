"""HTTP in: the platform's events, from the socket into the store.

Read it in the order in which an event passes: `serving` (our own listener) and `app` (other people's
servers), `endpoint` (who is heard), `exchange`, `direct` and `answers` (one request), `inbox` and
`marks` (the event). `limits` bounds it all, `secrets` guards it, `traffic` tells of it.
"""
