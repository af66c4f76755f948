"""Schedules: what is due is fed into ``incoming``, like any client's seeds.

The life of a firing
    A schedule that is *due* is claimed for some seconds. What is to be done is *planned* from its
    state and Redis' clock alone. It is noted that the firing has *begun*, its seeds are fed, and
    only when Kafka has them all is it noted that it has *fired*, by compare and set, together with
    its event.

What is always true
    * Whoever dies on the way, another one feeds all of it again. Each record names its occasion
      (schedule, time, number), and intake lets the first one of an occasion take effect.
    * A time that does not fire is told, with its reason.
"""
