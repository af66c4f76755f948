"""Configurations of the servers of a cluster that are struck, and how its processes find them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from crawlstream.errors import SetupError
from crawlstream_chaos.processes import RunningServer
from crawlstream_chaos.proxy import FaultyProxy
from crawlstream_cli.local import servers
from crawlstream_cli.local.home import find_jars
from crawlstream_cli.local.ports import Ports, free_block
from crawlstream_cli.local.servers import LocalServer

SEARCH = "search"
"""The search server of pipelines, among the servers."""
WITHOUT_PROXY = ("zookeeper",)
REDIS_BYTES = 1 << 30
_SHELVE_AT = "4"
"""Pages of one host from which on their middle is on the shelf, where there is one."""


def addresses(redis: Sequence[FaultyProxy]) -> Mapping[str, str]:
    """Settings that lead to the Redis of all partitions."""
    if len(redis) == 1:
        return {"REDIS_HOST": "127.0.0.1", "REDIS_PORT": str(redis[0].port)}
    listed = ",".join(f"127.0.0.1:{proxy.port}" for proxy in redis)
    return {"REDIS_HOSTS": listed}


def struck_servers(
    home: Path, ports: Ports, redis_names: Sequence[str], *, has_shelf: bool
) -> dict[str, LocalServer]:
    """Return the servers of a cluster by their names, in the order in which they start."""
    jars = find_jars()
    found = {
        "zookeeper": servers.zookeeper(home, port=ports.zookeeper, jars=jars),
        "kafka": servers.kafka(home, port=ports.kafka, jars=jars),
    }
    for number, name in enumerate(redis_names):
        port = ports.redis + number
        found[name] = servers.redis(home, port=port, max_memory=REDIS_BYTES, name=name)
    if has_shelf:
        found["shelf"] = servers.redis(
            home / "data" / "shelf", port=free_block(1), max_memory=REDIS_BYTES, keeps_all=True
        )
    return found


def search_at(places: Mapping[str, RunningServer] | Mapping[str, FaultyProxy]) -> str:
    """Return the URL of the search server, or of its proxy; empty: there is none."""
    return f"http://127.0.0.1:{places[SEARCH].port}" if SEARCH in places else ""


def on_shelf(proxy: FaultyProxy) -> Mapping[str, str]:
    """Settings with which queues are on it, and soon."""
    address = f"redis://127.0.0.1:{proxy.port}/0"
    return {"CRAWLSTREAM_SHELF": address, "CRAWLSTREAM_SHELVE_AT": _SHELVE_AT}


def advertise(kafka: LocalServer, port: int) -> None:
    """Let Kafka send its clients to another port than its own."""
    path = kafka.folder / "conf" / "kafka.properties"
    own = f"advertised.listeners=PLAINTEXT://127.0.0.1:{kafka.port}"
    text = path.read_text()
    if own not in text:
        raise SetupError(f"{path} does not say {own}")
    path.write_text(text.replace(own, f"advertised.listeners=PLAINTEXT://127.0.0.1:{port}"))
