"""Rights in Kafka that a process checks at its start."""

from __future__ import annotations

from functools import partial

from crawlstream.boot.startup import until_ready
from crawlstream.bus.access.rights import Rights, check_rights
from crawlstream.bus.connect import Kafka
from crawlstream_chaos.processes import RunningServer


async def test_a_kafka_without_an_authorizer_grants_everything(
    kafka_server: RunningServer, fresh_name: str
) -> None:
    """Topics and groups need not exist yet: a cluster that worked before still starts."""
    kafka = Kafka([f"127.0.0.1:{kafka_server.port}"])
    rights = Rights(reads=[fresh_name], writes=[fresh_name], groups=[fresh_name])
    await until_ready("kafka", partial(check_rights, kafka, rights))
