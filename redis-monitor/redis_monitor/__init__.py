"""Redis monitor: answers, endings, and the maintenance of the frontier.

Several of them share the work; each runs the same tasks side by side, none waits for another.

``answer``   takes actions from a stream, and acknowledges each after Kafka has its reply
``publish``  takes what the frontier owes the world from the outbox, in the same order of effects
``tend``     asks the frontier for one bounded step of maintenance at a time: reap, end, sweep
``audit``    adds up the ledgers of all crawls, which must leave nothing over, and tells the figures
``fire``     feeds the seeds of schedules that are due, each occasion once in effect
``rules``    copies the throttle rules from ZooKeeper into Redis, never an older version

What is always true
    * A reply or an event is in Kafka before Redis forgets that it is owed. A crash in between
      repeats it, under the same uuid or key.
    * What a dead monitor had taken is taken over by a living one.
    * State changes (stop) took effect before, at intake, in record order: here is only the answer.
"""
