"""Times as people type and read them: how long, and when by the clock on the wall."""

from __future__ import annotations

import re
import time

import typer

from crawlstream.model.words.quantities import TIME_UNITS, ago, duration

_LONGEST_S = 366 * 86_400


def seconds_of(text: str) -> int:
    """The seconds in ``45min``, ``1h``, ``2 d``; BadParameter for anything else."""
    found = re.fullmatch(r"(\d{1,6}) ?(d|h|min|s)", text.strip())
    seconds = int(found[1]) * dict(TIME_UNITS)[found[2]] if found else 0
    if not 0 < seconds <= _LONGEST_S:
        raise typer.BadParameter(
            f"'{text}' is not a duration of up to a year, such as 90s, 45min, 1h or 2d"
        )
    return seconds


def moment(epoch_s: float, *, now: float | None = None) -> str:
    """``18:16:10 (14 min ago)`` in local time, with its date if that is not today's.

    Both times are in epoch seconds.
    """
    now = time.time() if now is None else now
    return f"{_clock(epoch_s, now)} ({ago(now - epoch_s)})"


def until(epoch_s: float, *, now: float | None = None) -> str:
    """``until 18:16:10 (in 14 min)``, with the parameters of ``moment``."""
    now = time.time() if now is None else now
    return f"until {_clock(epoch_s, now)} (in {duration(epoch_s - now)})"


def _clock(epoch_s: float, now: float) -> str:
    then, today = time.localtime(epoch_s), time.localtime(now)
    is_today = (then.tm_year, then.tm_yday) == (today.tm_year, today.tm_yday)
    return time.strftime("%H:%M:%S" if is_today else "%Y-%m-%d %H:%M:%S", then)
