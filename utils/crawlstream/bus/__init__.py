"""Records in and out: Kafka on threads of its own, lists across the bridge.

A record's way in
    The *reader* thread polls Kafka's client. A partition that becomes ours stands still until the
    caller has said where to begin; then its records come as *batches*, one list a wake-up, a few
    of them in advance. The caller applies a batch together with its position; Kafka's own commit
    is a hint for people who watch the lag.

A record's way out
    The caller hands over a list and waits. The *writer* thread gives it to Kafka's client record
    by record; with the last acknowledgement the caller is woken, once. What has no verdict in
    time is given back, to be sent again under the same key.

Topics are made before their first record. Nothing here looks into a record.

What others know
    :class:`~crawlstream.bus.connect.Kafka` is made from the settings and passed to all of it. For
    the rest of crawlstream there are two *protocols*, ``Source`` and ``Sink``; the *factory* makes
    them.
"""
