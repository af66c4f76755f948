"""The frontier: what waits to be fetched, who holds it, who may fetch now.

The life of a URL in here
    ``put`` (or ``intake`` for a seed) admits it as an *entry* at the end of its *band*: the FIFO of
    one (spider, domain, crawl, priority). Its domain is *waiting* until the throttle allows the
    next request, then *ready* by its best priority. ``lease`` pops the entry for one worker: it is
    a *hold* now, named by a token, and counts against the domain's allowance. The worker fetches
    it, Kafka acknowledges the result, then ``settle`` admits its children and completes it in one
    script. ``requeue`` (a download outcome) and ``release`` (unmarked) put it back; ``reap`` does
    so for a worker that died.

Where there is no room
    A settle whose children find Redis crowded is refused. They are *spilled* to Kafka, and the
    page settles with the names of their records; ``recall`` puts them when Redis has room.

What a person does to a run
    A paused one admits and keeps everything and leases nothing: its bands leave the index as their
    turns come, and ``revisit`` brings them back in steps. A reprioritized one is *shifted*: entries
    stay in their bands, which are ranked by what they came with and the shift of their run. What
    waits although nothing happens in its run, and no person wanted that, is found by ``watch`` and
    fails by name in ``abandon``.

What is always true
    * Nothing is popped for good: an entry is in a band, delayed, or held, until it is settled,
      stopped or expired.
    * For every run: admitted = done + failed + redirected + stopped + expired
      + queued + delayed + held + spilled.
    * A token that Redis does not know for the worker changes nothing.
    * Every time is read from one clock inside Redis; when in doubt nothing is granted.
    * Every key belongs to a live crawl, is capped, or has a time to live.

One Lua file is one operation; its header tells guarantee, keys, arguments, answer and cost.
Their callers
    * a worker: ``worker.session``, with the links of its pages in ``worker.children``
    * a kafka-monitor: ``intake``, ``positions`` and ``overflow``
    * a redis-monitor: ``maintenance`` and ``streams``; it copies ``throttle_rules``
    * whoever asks, such as a command, REST or a plugin: ``queries`` and ``inspection``

``frontier`` opens them all over one ``Scripts``, ``opening`` those of all partitions by the
settings; ``codec`` has what travels, by subject.
"""
