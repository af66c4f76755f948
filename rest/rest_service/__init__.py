"""REST service: the cluster over HTTP.

The life of an HTTP request
    The life of an HTTP request
        The *gate* identifies the client and checks its role and rate; a refused request reaches no
    handler. A handler checks its input and then acts like any client of the cluster: it writes
    to the incoming topic and waits for the reply with the same ``uuid``. One reader of the
    outbound topic passes replies to all handlers. A late reply is kept for a while and fetched
    by ``/poll``. Crawls are read from the frontier, rules from ZooKeeper, results and events
    from Kafka.

``http`` surrounds the handlers: connections, the gate, quotas, and the one form of every refusal.
``topics`` writes to Kafka and reads replies. ``v1`` has the endpoints of the predecessor, ``v2``
those of crawlstream, ``dashboard`` the pages for people; all of them share ``service``.
"""
