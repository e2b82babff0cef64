"""Questions: ask in a chat, and wait for the answer.

`asking` implements questions, and `boards` questions with buttons. `buttons` defines keyboards, `keys`
encodes the buttons' keys, and `forms` defines native forms. `cleanup` removes old buttons, and recognizes the
second click of a double click. `live` is a message that shows the progress of an action.
"""
