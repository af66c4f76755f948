"""``crawlstream down``: stop the cluster of this home, and whatever one has left behind."""

from __future__ import annotations

from crawlstream.cli.console import stderr_console
from crawlstream.local.cluster import LocalCluster


def down() -> None:
    """Stop the cluster in CRAWLSTREAM_HOME and return when nothing of it runs any more.

    Crawlers finish what they are downloading; all that waits stays for the next `up`.
    """
    console = stderr_console()
    cluster = LocalCluster()
    was_running = cluster.is_running
    with console.status("stopping"):
        left = cluster.stop()
    if was_running:
        console.print("stopped")
    elif left:
        console.print(f"stopped {left} processes that an earlier cluster had left behind")
    else:
        console.print(f"no cluster runs in {cluster.home.path}", highlight=False)
