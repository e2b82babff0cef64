"""The rows that were accepted, on their way to their chats.

`consumption` knows what a row holds and ends it, `claims` ends it together with what it begins,
`catching_up` reads what waits, `outdated` knows the rows that were read too early.
"""
