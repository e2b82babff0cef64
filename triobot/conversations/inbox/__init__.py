"""The rows that were accepted, on their way to their chats.

`claims` are asked for each event before it is stored: what may begin or go on with it, in one commit.
`consumption` knows what a row holds and ends it.
"""
