"""The operator API: requests to a running bot, over HTTP on a Unix socket beside the bot's store.

`routes` defines the requests and their HTTP routes. `api` answers requests about a store, `serving` serves
`api` on the socket, and `calling` is the client. `outline` names a journal's records, and `views` formats the
records for people. If no bot listens on the socket, the operator's command opens the store itself, under the
store's lock, and calls its own `OperatorApi`. The command's answers are the same as a bot's, but without the
state of a running bot. The API can't be reached from the network. On systems without Unix sockets, `loopback`
uses a port of this computer with a key in a file. For a store in a database, requests and answers are passed
through the database (`orders`).
"""
