"""Ask for money, and give goods only for verified money.

`charging` implements `Chat.charge` and `Chat.invoice`, and one charge while it lasts. `paid` passes verified
money to the aside that gives the goods.
"""
