"""Ask, and wait for what answers.

`asking` is the question itself, `buttons` and `keys` what is pressed, `forms` what is filled in; `tidying`
takes old buttons away and knows the second click of a double click, `live` is the message that shows how
something goes on.
"""
