"""Kafka monitor: requests from Kafka into the frontier, each exactly once in effect.

The life of a record
    ``poll`` hands over a batch: consecutive records of one Kafka partition. Each is *decoded*
    (bytes, JSON), *routed* to the first kind of request whose schema it fits, and turned by that
    kind's handler into a seed or a command. What can never be is published on
    ``<prefix>.rejected``. Then the batch is *put*: one call to the frontier applies its effects
    and moves the position, both or neither. Meanwhile the next batch is judged.

What is always true
    * The position in the frontier is the truth; the group's commit in Kafka is a hint for tools.
    * A record is behind the position only if it took effect or is on ``<prefix>.rejected``.
    * A service that does not answer is waited for, with the group kept; nothing is skipped.
    * A second monitor with a late copy of a batch changes nothing.
    * What workers had to spill comes back from ``<prefix>.overflow`` likewise (``recall``).
    * A Redis that was lost is noticed within seconds, and told by Kafka what it forgot
      (``recovery``).
"""
