"""Records in and out: Kafka on threads of its own, lists across the bridge.

A record's way in
    The *reader* thread polls Kafka's client. A newly assigned partition is paused until the
    caller has given the offset to begin at; then its records arrive as *batches*, one list per
    wake-up, a few of them in advance. The caller applies a batch together with its position;
    Kafka's own commit is a hint for people who watch the lag.

A record's way out
    The caller hands over a list and waits. The *writer* thread gives it to Kafka's client record
    by record; with the last acknowledgement the caller is woken, once. Records without a verdict
    in time are returned, to be sent again under the same key.

Topics are created before their first record. Nothing here looks into a record.

Use by other packages
    :class:`~crawlstream.bus.connect.Kafka` is made from the settings and passed to all of it. For
    the rest of crawlstream there are two *protocols*, ``Source`` and ``Sink``; the *factory* makes
    them.
"""
