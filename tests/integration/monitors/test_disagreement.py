"""Monitors with other rules than those that run do not begin."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest

from support.monitors import MonitorCluster, MonitorProcess
from support.waiting import WaitUntil


@pytest.mark.parametrize(
    ("kind", "variable"),
    [("redis_monitor", "DUPEFILTER_TIMEOUT"), ("kafka_monitor", "CRAWLSTREAM_MAX_DEPTH")],
)
async def test_a_monitor_with_another_value_ends_with_2(
    cluster: MonitorCluster, wait_until: WaitUntil, kind: str, variable: str
) -> None:
    """A sentence names the setting and both values; the first one goes on.

    After its orderly end the second may begin at once.
    """
    run: Callable[..., AbstractContextManager[MonitorProcess]] = getattr(cluster, kind)
    with run(**{variable: "60"}) as first:
        await wait_until(lambda: first.starts() == 1, timeout_s=60)
        with run(**{variable: "61"}) as second:
            assert second.wait() == 2
            assert f"{variable} is 61 here and 60 in {kind.replace('_', '-')}:" in second.logged()
            assert "Traceback" not in second.logged()
            assert first.is_running()
            assert first.stop() == 0
            second.start()
            await wait_until(lambda: second.starts() == 1, timeout_s=60)
