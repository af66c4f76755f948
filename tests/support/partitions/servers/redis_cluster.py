"""A real Redis Cluster on 127.0.0.1: three primaries with equal ranges of slots, and replicas."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from redis.asyncio import Redis
from redis.asyncio.cluster import RedisCluster
from redis.crc import key_slot

from crawlstream.keys import SLOTS
from crawlstream.tasks import run_to_end
from crawlstream_chaos.processes import RunningServer
from crawlstream_cli.local.ports import free_block
from crawlstream_cli.local.servers import LocalServer
from support.servers import running
from support.waiting import wait_until

NODES = 3


@dataclass(frozen=True, slots=True)
class Move:
    """A slot on its way from one node to another."""

    slot: int
    source: int
    target: int


@dataclass(frozen=True, slots=True)
class RunningCluster:
    """Its nodes; node n has the n-th third of the slots, and perhaps the n-th replica."""

    nodes: Sequence[RunningServer]
    replicas: Sequence[RunningServer] = ()

    @property
    def addresses(self) -> str:
        """All nodes, as REDIS_CLUSTER lists them."""
        return ",".join(f"127.0.0.1:{node.port}" for node in (*self.nodes, *self.replicas))

    def client(self) -> RedisCluster:
        """A client that knows the cluster."""
        return RedisCluster(host="127.0.0.1", port=self.nodes[0].port)

    async def ask(self, node: int, *command: str | int) -> Any:
        """Return the answer of a node to a command."""
        return await _ask(self.nodes[node], *command)

    async def role(self, replica: int) -> str:
        """Return the role of a replica: `slave`, after a failover `master`."""
        role = (await _ask(self.replicas[replica], "ROLE"))[0]
        return role.decode() if isinstance(role, bytes) else str(role)

    async def empty(self) -> None:
        """Delete everything."""
        for node in range(NODES):
            await self.ask(node, "FLUSHALL")

    async def keys(self) -> list[list[bytes]]:
        """The keys that each node has."""
        return [await self.ask(node, "KEYS", "*") for node in range(NODES)]

    async def begin_move(self, key: str) -> Move:
        """Begin to move the slot of a key to another node key by key."""
        slot = key_slot(key.encode())
        source = slot * NODES // SLOTS
        target = (source + 1) % NODES
        ids = [await self.ask(node, "CLUSTER", "MYID") for node in (source, target)]
        await self.ask(target, "CLUSTER", "SETSLOT", slot, "IMPORTING", ids[0])
        await self.ask(source, "CLUSTER", "SETSLOT", slot, "MIGRATING", ids[1])
        return Move(slot, source, target)

    async def cancel(self, move: Move) -> None:
        """The slot stays where it is; no key of it has been moved."""
        for node in (move.source, move.target):
            await self.ask(node, "CLUSTER", "SETSLOT", move.slot, "STABLE")

    async def finish(self, move: Move) -> None:
        """Move all keys of the slot, one after the other, and notify all nodes."""
        port = self.nodes[move.target].port
        while keys := await self.ask(move.source, "CLUSTER", "GETKEYSINSLOT", move.slot, 1):
            await self.ask(move.source, "MIGRATE", "127.0.0.1", port, keys[0], 0, 5_000)
        owner = await self.ask(move.target, "CLUSTER", "MYID")
        for node in (move.target, move.source, *range(NODES)):
            await self.ask(node, "CLUSTER", "SETSLOT", move.slot, "NODE", owner)


@contextmanager
def running_cluster(
    folder: Path, nodes: int = NODES, replicas: int = 0, /, **options: str
) -> Iterator[RunningCluster]:
    """Run one whose data lives in ``folder``, of nodes with further options.

    ``nodes`` is the number of primaries, and the first of them have ``replicas``.
    """
    count = nodes + replicas
    first = free_block(2 * count)
    with ExitStack() as stack:
        servers = [
            _node(folder / f"{n}", first + n, first + count + n, options) for n in range(count)
        ]
        every = [stack.enter_context(running(each)) for each in servers]
        cluster = RunningCluster(every[:nodes], every[nodes:])
        run_to_end(_join(cluster))
        yield cluster


@asynccontextmanager
async def redis_cluster(
    folder: Path, nodes: int = NODES, replicas: int = 0, /, **options: str
) -> AsyncIterator[RunningCluster]:
    """Run a cluster in a test that is a coroutine."""
    with running_cluster(folder, nodes, replicas, **options) as cluster:
        yield cluster


async def _join(cluster: RunningCluster) -> None:
    """Deal out the slots, and let the nodes know each other."""
    nodes, every = len(cluster.nodes), (*cluster.nodes, *cluster.replicas)
    for n in range(nodes):
        begin, end = (-(-each * SLOTS // nodes) for each in (n, n + 1))
        await cluster.ask(n, "CLUSTER", "SET-CONFIG-EPOCH", n + 1)
        await cluster.ask(n, "CLUSTER", "ADDSLOTSRANGE", begin, end - 1)
    for node in every[1:]:
        await cluster.ask(0, "CLUSTER", "MEET", "127.0.0.1", node.port, node.port + len(every))
    for n in range(nodes):
        await wait_until(partial(_is_whole, cluster, n))
    for n, replica in enumerate(cluster.replicas):
        primary = (await cluster.ask(n, "CLUSTER", "MYID")).decode()
        await wait_until(partial(_knows, replica, primary))
        await _ask(replica, "CLUSTER", "REPLICATE", primary)
    for replica in cluster.replicas:
        await wait_until(partial(_is_in_step, replica))


def _node(folder: Path, port: int, bus: int, more: Mapping[str, str]) -> LocalServer:
    folder.mkdir(parents=True)
    options = {
        "bind": "127.0.0.1",
        "port": port,
        "cluster-port": bus,
        "cluster-enabled": "yes",
        "cluster-require-full-coverage": "no",
        "save": "",
        "appendonly": "no",
        **{name.replace("_", "-"): value for name, value in more.items()},
    }
    argv = [part for name, value in options.items() for part in (f"--{name}", str(value))]
    return LocalServer("redis", port, ("redis-server", *argv), folder)


async def _ask(server: RunningServer, *command: str | int) -> Any:
    client: Any = Redis(port=server.port)
    async with client:
        return await client.execute_command(*command)


async def _knows(server: RunningServer, node: str) -> bool:
    return node in str(await _ask(server, "CLUSTER", "NODES"))


async def _is_in_step(replica: RunningServer) -> bool:
    return "connected" in str((await _ask(replica, "ROLE"))[3])


async def _is_whole(cluster: RunningCluster, node: int) -> bool:
    info = await cluster.ask(node, "CLUSTER", "INFO")
    known = await cluster.ask(node, "CLUSTER", "SLOTS")
    return "cluster_state:ok" in str(info) and len(known) == len(cluster.nodes)
