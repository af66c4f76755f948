"""Homes and their partitions, on paper."""

from __future__ import annotations

from pathlib import Path

import pytest

from crawlstream.boot.local_note import note_for, write_note
from crawlstream.boot.settings import load_settings
from crawlstream.errors import SetupError
from crawlstream_cli.local.cluster import LocalCluster
from crawlstream_cli.local.home import Home
from crawlstream_cli.local.layout import LocalLayout
from crawlstream_cli.local.partitions import choose_partitions, note_partitions, partitions_in
from crawlstream_cli.local.ports import Ports


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """A home in which nothing has been started."""
    home = Home(tmp_path / "home")
    home.prepare()
    return home


def test_the_first_start_chooses_and_the_next_ones_follow(home: Home) -> None:
    """Starts one partition, or as many as were chosen, unless another number is given."""
    assert choose_partitions(home, None) == 1
    assert choose_partitions(home, 3) == 3
    assert partitions_in(home) == 1
    note_partitions(home, 3)
    assert choose_partitions(home, None) == choose_partitions(home, 3) == partitions_in(home) == 3
    with pytest.raises(SetupError, match="has 3 partitions, which cannot be changed to 2"):
        choose_partitions(home, 2)


def test_a_frontier_of_one_partition_is_not_divided(home: Home) -> None:
    """Its data are in a folder that several never have."""
    (home.data / "redis").mkdir()
    with pytest.raises(SetupError, match="has 1 partition, which cannot be changed to 2"):
        choose_partitions(home, 2)


def test_a_spoiled_note_is_told(home: Home) -> None:
    """A frontier of any number may be there."""
    (home.data / "partitions").write_text("many")
    with pytest.raises(SetupError, match="number of the folders"):
        partitions_in(home)


def test_clients_of_several_partitions_find_all_redis(home: Home) -> None:
    """Settings read from the cluster's environment name each Redis, in order, and the number."""
    ports = Ports(redis=7000)
    layout = LocalLayout(home=home, ports=ports, given={"REDIS_PASSWORD": "x"}, partitions=3)
    settings = load_settings(**layout.environment())
    assert settings.redis_servers == [("127.0.0.1", 7000 + n) for n in range(3)]
    assert settings.partitions.number == 3
    assert [layout.port_of("redis", f"redis-{n}") for n in range(3)] == [7000, 7001, 7002]
    environment = layout.environment()
    assert environment["CRAWLSTREAM_LOCAL_REDIS"] == "0"
    assert environment["CRAWLSTREAM_LOCAL_PARTITIONS"] == "3"


def test_another_redis_is_not_taken_for_partitions(home: Home) -> None:
    """Naming a Redis hides the several that run in the home."""
    layout = LocalLayout(home=home, ports=Ports(), given={"REDIS_PASSWORD": "x"}, partitions=3)
    write_note(home.path, {**layout.addresses(), **layout.secrets()})
    own = {"CRAWLSTREAM_HOME": str(home.path)}
    assert note_for(own)["REDIS_HOSTS"] == layout.addresses()["REDIS_HOSTS"]
    other = note_for({**own, "REDIS_HOST": "elsewhere"})
    assert not {"REDIS_HOSTS", "REDIS_PASSWORD", "CRAWLSTREAM_PARTITIONS"} & set(other)


def test_partitions_of_named_servers_are_not_started_here(home: Home) -> None:
    """The servers of `--partitions` and those that are named would be two frontiers."""
    env = {"REDIS_HOSTS": "a:1,b:1", "PATH": "/usr/bin"}
    cluster = LocalCluster(home.path, ports=Ports.free(), env=env)
    assert "redis" not in cluster._layout.local
    with pytest.raises(SetupError, match="remove REDIS_HOST"):
        cluster.start(partitions=2)
