"""Pages that a browser makes: its life, and what a page may do in it.

``chromium``  starts the program, confined; ``cdp`` speaks to it through a pipe
``browser``   is one that runs; ``browsers`` has one ready, and another one in time
``tab``       takes one page from its request to its DOM; ``judge`` says what it may ask for
``fetcher``   is the client of the fetch lane where a crawler renders; ``selftest`` looks at the
              start whether all of that holds

Nothing that a page asks for leaves but through the gateway, which goes by the guard; and each
request waits in the browser until it is allowed. So a page of a hostile site can neither reach what
a plain one could not, nor ask for more than a rule of the throttle says.
"""
