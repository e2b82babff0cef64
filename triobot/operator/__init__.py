"""The operator API: requests to a running bot, over HTTP on a Unix socket beside the bot's store.

`routes` defines the requests and their HTTP routes. `api` answers requests about a store, `serving` serves
`api` on the socket, and `calling` is the client. `outline` names a journal's records, and `views` formats the
records for people. If no bot listens on the socket, a command opens the store itself, under the store's lock,
and calls its own `OperatorApi`. The answers are the same, except for the state of a running bot. There is no
access from the network. On systems without Unix sockets, `loopback` uses a port of this computer with a key
in a file. For a store in a database, requests and answers are passed through the database (`orders`).
"""
