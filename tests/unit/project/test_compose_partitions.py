"""The compose file of a Redis Cluster, as far as it can be checked without a container."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from redis import Redis
from redis.exceptions import RedisError

from crawlstream.boot.settings import load_settings
from crawlstream_chaos.processes import Program
from crawlstream_cli.local.ports import free_block
from support.variables import DOCKER, load_yaml, variables

BASE = load_yaml(DOCKER / "compose.yaml")
OVER = load_yaml(DOCKER / "compose.partitions.yaml")
OURS = {name for name, service in BASE["services"].items() if "build" in service}
NODES = ["redis", *(f"redis-{number}" for number in range(2, 7))]


def default_of(value: str) -> str:
    """Replace ``${NAME:-default}`` as compose does."""
    return re.sub(r"\$\{\w+:-(.*?)\}", r"\1", value)


def test_all_processes_are_told_of_the_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    """All have equal values, of known settings; each node in them exists."""
    services = OVER["services"]
    assert set(services) == OURS | set(NODES)
    told = {tuple(services[name]["environment"].items()) for name in OURS}
    assert len(told) == 1
    (pairs,) = told
    assert {name for name, _ in pairs} <= variables()
    for name, value in pairs:
        monkeypatch.setenv(name, default_of(value))
    settings = load_settings()
    assert settings.is_redis_cluster
    assert settings.partitions.number == 16
    assert {host for host, _ in settings.redis_servers} < set(NODES)


def test_nodes_are_locked_in_as_the_one_redis_is() -> None:
    """No rights, no way out; data in a volume of its own, an address of its own."""
    kept, places = set[str](), set[str]()
    for name in NODES:
        node = BASE["services"].get(name, {}) | OVER["services"][name]
        assert (node["read_only"], node["cap_drop"]) == (True, ["ALL"])
        assert node["user"] == "redis"
        assert node["security_opt"] == ["no-new-privileges:true"]
        assert node["networks"].keys() == {"stores"}
        assert "ports" not in node
        kept |= {each.partition(":")[0] for each in node["volumes"]}
        places.add(f"{default_of(node['networks']['stores']['ipv4_address'])}:6379")
    assert kept <= set(BASE["volumes"]) | set(OVER["volumes"])
    assert len(kept) == len(NODES)
    assert default_of(OVER["services"]["redis"]["environment"]["REDIS_NODES"]).split() == sorted(
        places
    )


def argv_of(service: dict[str, Any], folder: Path, port: int) -> list[str]:
    """The command of a node, to be run here."""
    words = [default_of(word).replace("$$", "$") for word in service["command"]]
    words[2] = words[2].replace("/tmp/", f"{folder}/")  # noqa: S108  its own
    words[2] = words[2].replace("redis-cli cluster", f"redis-cli -p {port} cluster")
    words[-1] = "64mb"
    # By default other programs may have the port of the bus, 10,000 above.
    own = {"port": port, "cluster-port": port + len(NODES), "bind": "127.0.0.1", "dir": folder}
    return [*words, *(part for name, value in own.items() for part in (f"--{name}", str(value)))]


@contextmanager
def nodes(folder: Path, first: int) -> Iterator[None]:
    """All of them, each by its own command."""
    ports = range(first, first + len(NODES))
    secrets = {"REDIS_PASSWORD": "s3cret", "REDISCLI_AUTH": "s3cret"}
    with ExitStack() as stack:
        for name, port in zip(NODES, ports, strict=True):
            home = folder / name
            home.mkdir(exist_ok=True)
            service = BASE["services"].get(name, {}) | OVER["services"][name]
            environment = {**os.environ, **secrets}
            if "REDIS_NODES" in service["environment"]:
                environment["REDIS_NODES"] = " ".join(
                    f"127.0.0.1:{each}@{each + len(NODES)}" for each in ports
                )
            argv = argv_of(service, home, port)
            node = Program(*argv, env=environment, log=home / "log")
            stack.enter_context(node.running())
        yield


def wait_until_formed(port: int) -> None:
    """Until the health check of a node is well, and its cluster has replicas."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        time.sleep(0.2)
        try:
            with Redis(port=port, password="s3cret") as redis:
                info, known = redis.cluster("info"), redis.cluster("nodes")
        except (OSError, RedisError):
            continue
        if info["cluster_slots_assigned"] == "16384" and str(known).count("slave") == 3:
            return
    raise TimeoutError(f"no cluster at {port}")


def test_nodes_make_a_cluster_and_find_it_again(tmp_path: Path) -> None:
    """Makes a cluster of three primaries with a replica each, which evict nothing."""
    first = free_block(2 * len(NODES))
    for _ in range(2):
        with nodes(tmp_path, first):
            wait_until_formed(first + 3)
            for port in range(first, first + len(NODES)):
                with Redis(port=port, password="s3cret") as redis:
                    found = redis.config_get("*")
                assert (found["appendonly"], found["save"]) == ("yes", "")
                assert found["maxmemory-policy"] == "noeviction"
                assert found["cluster-require-full-coverage"] == "no"
