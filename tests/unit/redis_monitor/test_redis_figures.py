"""The figures that a redis-monitor looks up."""

from __future__ import annotations

from pathlib import Path

import pytest

from crawlstream.bus.history import PartitionOffsets
from redis_monitor.cluster_metrics import existing, lag_of


@pytest.mark.parametrize(
    ("held", "lag"),
    [
        (PartitionOffsets(oldest=0, end=0, committed=None), 0),
        (PartitionOffsets(oldest=10, end=50, committed=None), 40),
        (PartitionOffsets(oldest=10, end=50, committed=45), 5),
        (PartitionOffsets(oldest=48, end=50, committed=45), 2),
        (PartitionOffsets(oldest=0, end=50, committed=7_000), 50),
    ],
    ids=["empty", "never read", "behind", "deleted unread", "made anew"],
)
def test_the_lag_is_what_is_there_and_was_not_taken(held: PartitionOffsets, lag: int) -> None:
    """Counts the lag by what exists and was not read, whatever was committed before."""
    assert lag_of(held) == lag


def test_a_home_that_is_not_made_yet_has_a_disk(tmp_path: Path) -> None:
    """That of the folder where it would be made."""
    assert existing(tmp_path / "not" / "yet") == tmp_path
    assert existing(tmp_path) == tmp_path
