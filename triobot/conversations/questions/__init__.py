"""Ask, and wait for what answers.

`asking` is the question itself, `buttons` and `keys` what is pressed, `forms` what is filled in,
`arguments` what authors hand over; `answered` knows the second click of a double click, `tidying` takes old
buttons away, `live` is the message that shows how something goes on.
"""
