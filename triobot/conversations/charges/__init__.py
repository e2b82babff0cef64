"""Ask for money, and hand over nothing but verified money.

`charging` is the chat's method and one charge while it lasts, `paid` the money in the hands of the author's
code.
"""
