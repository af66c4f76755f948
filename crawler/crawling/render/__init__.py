"""Rendering of pages in a browser, and the limits of a page in it.

``chromium``          starts the program, confined; ``cdp`` sends it commands through a pipe
``browser``           is one running browser; ``browsers`` keeps one ready and replaces it in time
``tab``               takes one page from its request to its DOM; ``judge`` decides on its further
                      requests
``rendering_client``  is the client of the fetch lane where a crawler renders; ``selftest`` checks
                      the browser when the crawler starts

Requests of a page leave only through the gateway, which applies the guard. Each request waits in
the browser until it is allowed. So a page of a hostile site can reach no more addresses than a
plain page, and send no more requests than its throttle rule allows.
"""
