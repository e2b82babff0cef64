"""HTTP in: the platform's events, from the socket into the store.

Read it in the order in which an event passes: `binding` and `serving` (the connection), `app` and
`endpoint` (who is heard), `framing`, `exchange` and `answers` (one request), `inbox` and `marks` (the
event). `limits` bounds it all, `secrets` guards it, `access` and `traffic` tell of it.
"""
