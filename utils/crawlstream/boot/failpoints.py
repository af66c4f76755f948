"""Deliberate deaths, for tests: ``FAILPOINT=after_publish:kill`` dies at that step.

``FAILPOINT=<step>:kill[:<n>]`` kills the process (SIGKILL) the n-th time it reaches the step,
the first time by default; ``stop`` freezes it there (SIGSTOP). Unset, which is everywhere but in
tests, a failpoint costs one test of a string.
"""

from __future__ import annotations

import os
import signal

STEPS = (
    "after_lease",
    "after_fetch",
    "after_parse",
    "after_publish",
    "before_settle",
    "after_settle",
)
"""The steps of a page's life, in the order of its effects; where Redis is crowded, ``after_spill``
comes before the settle. A kafka-monitor has ``after_put``: what was refused is not told yet, and
where a partition catches up, ``late_enrolled`` and ``late_taken``."""

PAID_STEPS = ("after_reserve", "before_settlement")
"""Steps of a page that is paid: its price is reserved, and its receipt is not booked yet."""

ANSWERED_STEPS = ("before_reply",)
"""Steps of a page whose client waits for it: Kafka has its result, but not yet the reply."""

REQUISITE_STEPS = ("after_requisite",)
"""Steps of a page whose requisites are archived: Kafka has one of them."""

_SIGNALS = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}

_step, _action, _left = "", "", 1


def set_up(where: str) -> None:
    """Die or freeze at another failpoint from now on."""
    global _step, _action, _left  # noqa: PLW0603  of this process
    _step, _, rest = where.partition(":")
    _action, _, count = rest.partition(":")
    _left = int(count or 1)


def failpoint(step: str) -> None:
    """Die or freeze here if FAILPOINT says so."""
    global _left  # noqa: PLW0603  the count of this process
    if step != _step or _action not in _SIGNALS:
        return
    _left -= 1
    if _left == 0:
        os.kill(os.getpid(), _SIGNALS[_action])


set_up(os.environ.get("FAILPOINT", ""))
