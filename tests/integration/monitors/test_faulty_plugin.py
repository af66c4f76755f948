"""A plugin that does not match its package: the monitor reports it, and does not start."""

from __future__ import annotations

from pathlib import Path

from support.documented import install_example_plugin
from support.monitors import MonitorCluster


def test_an_action_whose_entry_point_has_another_name_ends_the_start(
    cluster: MonitorCluster, tmp_path: Path
) -> None:
    """Exits with 2 and a sentence that names the package and both names."""
    install_example_plugin(tmp_path)
    points = tmp_path / "pinger-1.dist-info" / "entry_points.txt"
    points.write_text(points.read_text().replace("ping = pinger:PingM", "pong = pinger:PingM"))
    with cluster.redis_monitor(PYTHONPATH=cluster.python_path(tmp_path)) as process:
        assert process.wait(60) == 2
        assert "(package pinger): its entry point is called 'pong', but" in process.logged()
