"""Throttle states of domains, converted to the clock of another frontier.

See ``lua/includes/throttle.lua`` for the form. Domains are treated as after a restart of Redis:
as if their allowance had just been used up. Delays that sites have requested remain.
"""

from __future__ import annotations

import struct

_HEAD = struct.Struct("<IIdIBIdI")
_CARE = struct.Struct("<BBddId")
_BUCKET = struct.Struct("<dI")
_LONG_AGO = 1.0
"""A ``not_before`` in the past: it only marks that the fields of ``_CARE`` follow."""


def shifted(state: bytes, by_ms: float) -> bytes:
    """Return a throttle state with times later by ``by_ms``, and without requests in flight."""
    _, _, not_before, _, bonus, sends, latest, in_latest = _HEAD.unpack_from(state)
    moved = not_before + by_ms if not_before > _LONG_AGO else not_before
    head = _HEAD.pack(0, 0, moved, 0, bonus, sends, _later(latest, by_ms), in_latest)
    rest = state[_HEAD.size :]
    if not not_before:
        return head + _older(rest, by_ms)
    strikes, silences, struck_at, since, delay, until = _CARE.unpack_from(rest)
    times = _later(struck_at, by_ms), _later(since, by_ms)
    care = _CARE.pack(strikes, silences, *times, delay, until)
    return head + care + _older(rest[_CARE.size :], by_ms)


def _later(time: float, by_ms: float) -> float:
    return time + by_ms if time > 0 else time


def _older(buckets: bytes, by_ms: float) -> bytes:
    return b"".join(
        _BUCKET.pack(start + by_ms, sends) for start, sends in _BUCKET.iter_unpack(buckets)
    )
