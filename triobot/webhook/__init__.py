"""The webhook: receives the platform's events over HTTP and stores them.

Read the modules in an event's order. `serving` (triobot's own listener) or `app` (hypercorn and Quart)
receives the request; neither module imports the other module. `endpoint` checks each request; `exchange` and
`answers` define how a request is read and answered. `inbox` stores the event. `limits` defines every limit,
`secrets` compares the secret in the path, and `kept_secrets` reads and renews the secrets in the store.
"""
