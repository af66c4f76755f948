"""REST service: the cluster over HTTP.

The life of an HTTP request
    The *gate* asks who it is, whether that one may do this, and whether it does it too often; no
    refused request reaches a handler. A handler checks what it was given and then does what any
    client of the cluster does: it writes to the incoming topic, and whoever asked waits for the
    reply of the same ``uuid``, which one reader of the outbound topic hands to all. What comes too
    late is kept for a while and fetched by ``/poll``. Questions about crawls go to the frontier,
    about rules to ZooKeeper, about results and events to Kafka.

``http`` is what comes before a handler and after it: connections, the gate, quotas, the one form of
every refusal. ``topics`` is the way to Kafka and back. ``v1`` has the endpoints of the predecessor,
``v2`` our own, ``dashboard`` the pages for people; ``service`` is what all of them work with.
"""
