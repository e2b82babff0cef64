"""Questions: ask in a chat, and wait for the answer.

`asking` implements questions. `buttons` and `keys` define what users press, and `forms` what they fill in.
`cleanup` removes old buttons, and recognizes the second click of a double click. `live` is a message that
shows the progress of an action.
"""
