"""The frontier: queues, leases and rate limits of the cluster.

Life of a URL
    ``put`` (or ``intake`` for a seed) admits it as an *entry* at the end of its *band*: the FIFO of
    one (spider, domain, crawl, priority). Its domain is *waiting* until the throttle allows the
    next request, then *ready* by its best priority. ``lease`` pops the entry for one worker: the
    *lease* is named by a token, and counts against the domain's allowance. The worker fetches
    it, Kafka acknowledges the result, then ``settle`` admits its children and completes it in one
    script. ``requeue`` (a download outcome) and ``release`` (unmarked) put it back; ``reap`` does
    so for a worker that died.

Backpressure
    A settle whose children find Redis crowded is refused. They are *spilled* to Kafka, and the
    page settles with the names of their records; ``recall`` puts them when Redis has room.

Commands for a run
    A paused run admits and keeps everything and leases nothing: its bands leave the index in their
    turns, and ``revisit`` brings them back in steps. A reprioritized run is *shifted*: entries
    stay in their bands, which are ranked by the entries' own priority plus the shift of the run.
    ``watch`` finds runs without progress that are not held back, and ``abandon`` fails their
    queued pages.

Invariants
    * No entry is lost when it is popped: it is in a band, delayed, or held, until it is settled,
      stopped or expired.
    * For every run: admitted = done + failed + redirected + skipped + stopped + expired
      + queued + delayed + held + spilled.
    * A token that Redis does not know for the worker changes nothing.
    * Every time is read from one clock inside Redis; when in doubt nothing is granted.
    * Every key belongs to a live crawl, is capped, or has a time to live.

One Lua file is one operation; its header has guarantee, keys, arguments, answer and cost.
Their callers
    * a worker: ``worker.session``, with the links of its pages in ``worker.link_packer``
    * a kafka-monitor: ``intake``, ``positions`` and ``overflow``
    * a redis-monitor: ``maintenance`` and ``streams``; it copies ``throttle_rules``
    * a command, REST or a plugin: ``queries`` and ``inspector``

``frontier`` opens them all over one ``Scripts``, ``opening`` those of all partitions by the
settings; ``codec`` packs and unpacks their arguments and answers.
"""
