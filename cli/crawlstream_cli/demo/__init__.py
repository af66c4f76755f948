"""The bundled site: a small web that knows its own truth.

``web``         what there is: hosts, pages and the links between them, made from a seed number
``http_reply``  what a visitor gets: the bytes of each page
``truth``       what a crawl of given rules must fetch and deliver, by walking the model
``access_log``  who came when: the referee of every test
``files``       what a pipeline has made of the results: each page once?
``site``        the HTTP server that ties them together

The life of a page here: a number in the model, a reply rendered once, a line in the log for
every visit. Nothing is fetched from anywhere and nothing is random: the same arguments make
the same web, byte for byte.
"""
