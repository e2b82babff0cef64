"""Ask for money, and give for nothing but verified money, in one place.

`charging` is the chat's method and one charge while it lasts, `paid` the money in the hands of the aside that
gives what was bought.
"""
