"""A rotation of the key that requests are signed with, step by step, while others strike."""

from __future__ import annotations

import asyncio
import os
import signal
import urllib.request
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from crawlstream.signing.keys import Key
from crawlstream.signing.signer import DIRECTORY_PATH
from crawlstream.tasks import wait_until
from crawlstream.wire.jsontext import loads
from crawlstream_chaos.cluster import ChaosCluster
from crawlstream_chaos.faults import BACK_S, Fault, FaultContext, FaultEffect, leased

_ANSWER_S = 2


async def rotate_key(context: FaultContext) -> FaultEffect:
    """Publish a new key, restart crawlers with it one by one, and withdraw the old one."""
    cluster = context.cluster
    keyring = cluster.keyring
    async with cluster.turns["key"]:
        in_flight, old = await leased(context), keyring.key
        new, path = keyring.new()
        await _publish(cluster, old, new)
        keyring.sign_with(new, path)
        for process in await cluster.processes("crawler"):
            in_flight += await leased(context)
            if process.pid:
                await _restart(cluster, process.pid)
        await _publish(cluster, new)
    return FaultEffect(f"key {new.keyid}", in_flight)


async def _publish(cluster: ChaosCluster, *keys: Key) -> None:
    """Write the directory, and wait until REST serves it."""
    cluster.keyring.write(*keys)
    wanted = {key.keyid: key.x for key in keys}

    async def is_served() -> bool:
        with suppress(OSError):
            return await asyncio.to_thread(_served, cluster) == wanted
        return False

    await wait_until(is_served, timeout_s=BACK_S, every_s=0.2)
    cluster.keyring.note(wanted)


def _served(cluster: ChaosCluster) -> Mapping[str, str]:
    url = f"http://127.0.0.1:{cluster.settings.rest_port}{DIRECTORY_PATH}"
    with urllib.request.urlopen(url, timeout=_ANSWER_S) as answer:
        found: Any = loads(answer.read())
    return {key["kid"]: key["x"] for key in found["keys"]}


async def _restart(cluster: ChaosCluster, pid: int) -> None:
    """End a crawler, and wait until it is gone; supervisor starts the next one."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)

    async def is_gone() -> bool:
        return pid not in {each.pid for each in await cluster.processes("crawler")}

    await wait_until(is_gone, timeout_s=BACK_S, every_s=0.2)


ROTATION = Fault(
    "rotate-key",
    "a new signing key is published, used by restarted crawlers, and the old one withdrawn",
    rotate_key,
    is_for_all=False,
)
