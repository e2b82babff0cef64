"""The operator API: requests to a running bot, by HTTP over a Unix socket beside its store.

`requests` has the requests, `routes` says where each is asked for, `api` answers them out of a store,
`serving` serves that on the socket, and `calling` is the client; `views` shows records to people. A command
that finds no bot behind the socket opens the store itself, under its lock, and asks an API of its own: the
answers are the same, without what only a running bot knows. There is no way in from the network. Where the
system has no Unix sockets, `loopback` is the way, by a key in a file; where the store is in a database, the
store is (`orders`).
"""
