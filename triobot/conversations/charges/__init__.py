"""Ask for money, and give goods only for verified money.

`charging` implements `Chat.charge` and `Chat.invoice`. `paid` passes verified money to the aside that gives
the goods.
"""
