"""The page: the platform's app in a browser, with the machine room beside it.

The server hands out the files in `assets`, which hold no secret; `follower` says what there is to see and
what has changed, and sends that to a page that has shown the control token. What people do goes through the
control API. How the scripts belong together is told at the top of ``assets/main.js``.
"""
