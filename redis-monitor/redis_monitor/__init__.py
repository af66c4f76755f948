"""Redis monitor: answers, endings, and the maintenance of the frontier.

Several of them share the work; each runs all tasks concurrently, none waits for another.

    ``answer``   takes actions from a stream, and acknowledges each after Kafka has its reply
    ``publish``  publishes the frontier's outbox, in the order of effects
    ``tend``     calls one bounded step of maintenance of the frontier at a time: reap, end, sweep
    ``audit``    adds up the ledgers of all crawls, which must leave 0, and publishes the figures
    ``fire``     feeds the seeds of schedules that are due, each occasion once in effect
    ``rules``    copies the throttle rules from ZooKeeper into Redis, never an older version

Guarantees

    * A reply or an event is in Kafka before Redis deletes it. A crash in between repeats it,
      under the same uuid or key.
    * The actions of a dead monitor are taken over by a living one.
    * State changes (stop) took effect before, at intake, in record order: only the answer is
      made here.
"""
