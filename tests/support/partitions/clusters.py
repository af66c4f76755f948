"""Clusters that are small enough to be explored, and those that show each planted bug."""

from __future__ import annotations

from typing import NamedTuple

from support.partitions.values import Bug, Cluster


class Explored(NamedTuple):
    """A cluster, and in how many states it can be."""

    cluster: Cluster
    states: int
    """Other numbers say that the model has changed. A second program agreed with each of them."""


_PAIR = Cluster({"a": 1, "b": 1}, {}, "ab")
"""Two seeds; the second may come after the run of the first has ended."""
_HOP = Cluster({"a": 1, "b": 0, "c": 1}, {"a": "b"}, "ac")
"""A link from another partition to the coordinator, and a second seed."""
_TWO = Cluster({"a": 0, "b": 1, "c": 0, "d": 1}, {"a": "b", "b": "ca", "d": "c"}, "a")
"""Links to and fro between two partitions."""
_THREE = Cluster({"a": 1, "b": 2, "c": 1}, {"a": "b", "b": "c"}, "a", partitions=3)
"""Links to and fro between partitions other than the coordinator."""
_RING = Cluster({"a": 2, "b": 1, "c": 0}, {"a": "b", "b": "c", "c": "a"}, "a", partitions=3)

CLUSTERS = {
    "nothing fails": Explored(_TWO._replace(incoming="ad", workers=2), 17_847),
    "three partitions": Explored(_THREE._replace(incoming="ab", workers=2), 18_408),
    "one partition, twice back": Explored(
        Cluster({"a": 0}, {}, "a", partitions=1, crashes=2), 23_432
    ),
    "a stop": Explored(_HOP._replace(incoming="a!c", workers=2), 30_967),
    "one of two goes back": Explored(_TWO._replace(crashes=1), 31_268),
    "one of three goes back": Explored(_THREE._replace(crashes=1), 34_650),
    "a second seed, not the home goes back": Explored(
        _PAIR._replace(crashes=1, crashing=(1,)), 43_814
    ),
    "two workers die": Explored(_TWO._replace(workers=2, deaths=2), 42_642),
    "a second seed, the home goes back": Explored(_PAIR._replace(crashes=1, crashing=(0,)), 61_289),
    "links, not the home goes back": Explored(_HOP._replace(crashes=1, crashing=(1,)), 138_285),
    "a second seed, one goes back": Explored(_PAIR._replace(crashes=1), 154_870),
    "one goes back, a worker dies": Explored(
        _HOP._replace(incoming="a", workers=2, crashes=1, deaths=1), 286_249
    ),
    "links, the home goes back": Explored(_HOP._replace(crashes=1, crashing=(0,)), 361_242),
    "two go back": Explored(Cluster({"a": 0, "b": 1}, {"a": "b"}, "a", crashes=2), 772_783),
    "a second seed, the home goes back twice": Explored(
        _PAIR._replace(crashes=2, crashing=(0,)), 3_695_725
    ),
    "a stop, one goes back": Explored(_PAIR._replace(incoming="a!b", crashes=1), 4_085_359),
    "a ring of three": Explored(_RING._replace(workers=2, crashes=1, deaths=1), 4_166_052),
    "links, a stop, one goes back": Explored(_HOP._replace(incoming="a!c", crashes=1), 11_120_019),
}

EXPIRING = {
    "a run expires": Explored(_HOP._replace(incoming="a", lapses=1), 1_024),
    "a run expires, and is fed again": Explored(_PAIR._replace(lapses=1), 11_771),
    "a run expires, and is stopped": Explored(_PAIR._replace(incoming="a!", lapses=1), 2_998),
    "a run expires, one goes back": Explored(
        Cluster({"a": 0}, {}, "a", partitions=1, lapses=1, crashes=1), 15_780
    ),
}
"""Clusters whose coordinators' clocks end runs at any moment; no second program has seen them."""

LEAVING_OUT = {
    "one of two goes back": Explored(_TWO._replace(crashes=1, leaves_out=True), 25_540),
    "a stop": Explored(_HOP._replace(incoming="a!c", workers=2, leaves_out=True), 34_529),
}
"""Clusters in which no link is sent, or put, that Kafka has; no second program has seen these."""

_STOP_AND_BACK = _PAIR._replace(incoming="a!b", crashes=1, crashing=(0,))

PLANTED = {
    Bug.LATE_POSITIONS: _THREE._replace(incoming="ab", workers=2),
    Bug.NO_NEED: _TWO,
    Bug.NO_SEEDS_POSITION: _PAIR,
    Bug.NO_COMPARE_AND_SET: _PAIR,
    Bug.SETTLE_FIRST: _TWO,
    Bug.NEED_FORGOTTEN: _TWO,
    Bug.POSITIONS_KEPT: _TWO._replace(crashes=1),
    Bug.POSITION_FIRST: _TWO,
    Bug.NO_HINT: _PAIR,
    Bug.LEFTOVERS_DROPPED: _PAIR._replace(crashes=1, crashing=(0,)),
    Bug.NOT_RESTORED: _STOP_AND_BACK,
    Bug.STOP_NOT_NOTED: _STOP_AND_BACK,
    Bug.LEFT_OUT_NOT_NEEDED: _TWO._replace(crashes=1, leaves_out=True),
    Bug.LAPSE_NOT_NOTED: _PAIR._replace(lapses=1, crashes=1, crashing=(0,)),
}
"""Where each bug breaks a law within some ten thousand states."""

LATE_ENDING = (
    *("enroll", "take", "ask", "labels", "label", "lease", "publish", "settle", "look", "idle"),
    *("freeze", "finish", "publish_ending", "crash", "restore", "enroll", "append_ending", "crash"),
)
"""How `NO_FENCE` shows, in too many states for a search.

An ending is on its way when the coordinator goes back and opens the run again, with one more seed.
Then the ending arrives, and the coordinator goes back again.
"""
LATE_ENDING_CLUSTER = Cluster({"a": 0, "b": 0}, {}, "ab", partitions=1, crashes=2)
