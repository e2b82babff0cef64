"""Ask for money, and hand over nothing but verified money.

`charging` is the chat's method, `till` one charge while it lasts, `paid` the money in the hands of the
author's code, `holding` what keeps a timeout from ending it in its last second, `top_up` where a wallet may
be filled.
"""
