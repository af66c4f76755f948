"""``crawlstream down``: stop the cluster of this home, and whatever one has left behind."""

from __future__ import annotations

from crawlstream_cli.common.console import stderr_console
from crawlstream_cli.local.cluster import LocalCluster


def down() -> None:
    """Stop the cluster in CRAWLSTREAM_HOME and wait until all its processes have ended.

    Crawlers finish their current downloads. Queued pages are kept for the next `up`.
    """
    console = stderr_console()
    cluster = LocalCluster()
    was_running = cluster.is_running
    with console.status("stopping"):
        left = cluster.stop()
    if was_running:
        console.print("stopped")
    elif left:
        console.print(f"stopped {left} leftover processes of an earlier cluster")
    else:
        console.print(f"no cluster is running in {cluster.home.path}", highlight=False)
