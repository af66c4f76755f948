"""Schedules: due seeds are fed into ``incoming``, like any client's seeds.

The life of a firing

    A schedule that is *due* is claimed for some seconds. Its firing is *planned* from its state
    and Redis' clock alone. A note says that the firing has *begun*, its seeds are fed, and once
    Kafka has them all another note, by compare and set, says that it has *fired*, together with
    its event.

Guarantees

    * If a process dies on the way, another one feeds all seeds again. Each record names its
      occasion (schedule, time, number), and intake lets the first one of an occasion take effect.
    * A time that does not fire is reported, with its reason.
"""
