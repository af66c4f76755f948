"""Crawler: leased requests through Scrapy, results to Kafka.

The life of a page here:

``feeder``       asks the frontier for as many holds as there is room for, and tells it all that
                 happened since: one exchange, again and again
``holds``        makes a ``pages.Page`` of each; ``slots`` says how many there may be, ``shares``
                 which domains rest because their pages are dear, ``weights`` which bodies wait
                 because all together are too heavy
``robots``       lets it pass, ends it, or spends its grant on the robots.txt nobody has yet
                 (``robots_book`` in the cluster, ``robots_known`` in this process)
``to_scrapy``    makes a request of it, the only one there will be for this grant
``handler``      is the last gate: ``guard`` vets the address (``addresses``), the grant must be
                 fresh, the server be who it says where that matters (``trust``), and the frontier
                 hears when the request left and how the site reacted (``reactions``);
                 ``connections`` are kept for the next page, ``downloader`` lets nobody else send
``middlewares``  take the response, unpacked (``codings``) and its ``charset`` settled: ``outcome``
                 decides whether it is for the spider, another attempt, a redirect (``redirects``)
                 or a failure (``failures``)
``spiders``      make a result of it and find links (``links``, with their ``link_texts``, through
                 ``filters`` and ``patterns``); ``outlinks`` packs these for the frontier, without
                 ``traps`` and what the ``blacklist`` holds
``publish``      has the record acknowledged by Kafka, its ``bodies`` stored before if need be
``endings``      then owes its end to the frontier, with the links, or ``spill`` sees them to Kafka

``worker`` holds all this together from the first beat to the last; ``lifetime`` and ``notice`` say
when that has come. ``recorder`` remembers what was on the CPU, should the process die of it.
``settings`` and ``addon`` are what Scrapy must be told.
"""
