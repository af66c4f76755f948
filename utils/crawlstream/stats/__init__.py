"""Bounded counters, and who is alive: what ``stats`` requests and ``status`` are answered from.

The life of a count
    A process adds to its :class:`~crawlstream.stats.tally.Tally`, in memory. Once a second the
    difference travels in one pipelined call into three hashes of its family: the minute, the
    quarter of an hour, and the lifetime. Minutes are forgotten after an hour, quarters
    after a week, so a window is a sum over at most 673 hashes however busy the cluster.

Families
    ``kafka-monitor`` and ``redis-monitor`` count ``total``, ``fail`` and ``plugins/<class>``;
    ``spider`` counts ``<spider>/<status>`` and ``machine`` counts ``<host>/<status>``;
    ``traffic`` counts all downloads of the cluster by what they brought, and their time.

Counts are for people: a lost reply may count twice, a crash may lose one second. The ledger of
a crawl, which must be exact, lives in the frontier.
"""
