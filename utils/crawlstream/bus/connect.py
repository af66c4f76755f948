"""Connections to Kafka: one place for the options of every client."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any

from kafka import KafkaAdminClient
from kafka.errors import KafkaError, KafkaTimeoutError
from kafka.net.compat import KafkaNetClient
from kafka.protocol.metadata import MetadataRequest

from crawlstream.bus.access.refusals import refusal_of
from crawlstream.bus.codecs import Codec
from crawlstream.bus.shape import TopicShape
from crawlstream.errors import KafkaRefused, KafkaUnavailable

BOOTSTRAP_TIMEOUT_MS = 3_000
"""Maximum time of one attempt to reach any of the hosts; callers repeat the attempt."""

REQUEST_TIMEOUT_MS = 5_000
"""Time after which a broker that does not answer is connected to again."""


MakeHeaders = Callable[[bytes | None, bytes], tuple[tuple[str, bytes], ...]]
"""(key, value of a record) -> its headers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaSecurity:
    """TLS and authentication, in the words of kafka-python."""

    security_protocol: str = "PLAINTEXT"
    sasl_mechanism: str | None = None
    sasl_plain_username: str | None = None
    sasl_plain_password: str | None = None
    ssl_cafile: str | None = None
    ssl_certfile: str | None = None
    ssl_keyfile: str | None = None
    ssl_password: str | None = None
    ssl_check_hostname: bool = True


@dataclass(frozen=True, slots=True)
class Kafka:
    """Where Kafka is and how a process uses it: made from its settings once, and passed on."""

    hosts: Sequence[str]
    """Bootstrap brokers, each ``host:port``."""
    client_id: str = "crawlstream"
    """Name of the clients in Kafka's log, metrics and quotas."""
    security: KafkaSecurity = field(default=KafkaSecurity(), repr=False)
    codec: Codec = "gzip"
    """How produced records are compressed."""
    shape: TopicShape = field(default_factory=TopicShape)
    """How topics are created, and how large a record may be."""
    headers: Mapping[str, MakeHeaders] = field(default_factory=dict, repr=False)
    """Makers of headers, by the topic whose records have them."""
    reads_traces: bool = False
    """True if groups read the header ``traceparent`` of records."""

    def named(self, client_id: str) -> Kafka:
        """Return a copy for clients with another name."""
        return replace(self, client_id=client_id)

    def options(self) -> dict[str, Any]:
        """Return the options that producers, consumers and admin clients of kafka-python share."""
        security = asdict(self.security)
        return {name: value for name, value in security.items() if value is not None} | {
            "bootstrap_servers": list(self.hosts),
            "client_id": self.client_id,
            "bootstrap_timeout_ms": BOOTSTRAP_TIMEOUT_MS,
            "request_timeout_ms": REQUEST_TIMEOUT_MS,
            # A broker that comes back is noticed within a second, not within half a minute.
            "reconnect_backoff_max_ms": 1_000,
        }


class Network(KafkaNetClient):  # type: ignore[misc]
    """Network client of kafka-python; keeps the reason of a refused login, which is only logged."""

    refusal: KafkaRefused | None = None
    """The last refusal by a broker, until one accepts us; a timeout after it changes nothing."""

    def __init__(self, **configs: Any) -> None:
        super().__init__(**configs)
        manager = self._manager
        self._connect, self._build = manager._connect, manager._build_transport  # noqa: SLF001  no public hook
        manager._connect, manager._build_transport = self._connect_noting, self._build_reading  # noqa: SLF001

    def partitions_of(self, topic: str) -> frozenset[int]:
        """Return the numbers of a topic's partitions, none if it does not exist; KafkaError.

        A consumer of kafka-python would request the partitions of all topics of the cluster.
        """
        known = self.cluster.partitions_for_topic(topic)
        if known is None:
            known = self._manager.run(self._request_partitions, topic)
        return frozenset(known)

    async def _request_partitions(self, topic: str) -> Collection[int]:
        request = MetadataRequest(
            topics=[MetadataRequest.MetadataRequestTopic(name=topic)],
            allow_auto_topic_creation=False,
            include_cluster_authorized_operations=False,
            include_topic_authorized_operations=False,
        )
        (found,) = (await self._manager.send(request)).topics
        return [] if found.error_code else [each.partition_index for each in found.partitions]

    async def _connect_noting(self, node: Any, connection: Any, **options: Any) -> None:
        await self._connect(node, connection, **options)
        opened = connection.init_future
        if opened.succeeded():
            self.refusal = None
        elif opened.failed():
            self.refusal = refusal_of(opened.exception) or self.refusal

    async def _build_reading(self, node: Any, **options: Any) -> Any:
        transport = await self._build(node, **options)
        transport._sock_recv = partial(_before_the_end, transport._sock_recv)  # noqa: SLF001
        return transport


def _before_the_end(receive: Callable[[], tuple[bytes, Any]]) -> tuple[bytes, Any]:
    """Return the bytes before the end of a connection, then the end.

    kafka-python drops such bytes: the refusal of a login, after which Kafka closes at once.
    """
    data, error = receive()
    return data, None if data else error


def open_client(
    kind: type, *topics: str, network: type[Network] = Network, **options: Any
) -> tuple[Any, Network]:
    """Make a kafka-python client over ``network`` and hand out its network client, too.

    A constructor that cannot reach Kafka raises, and leaves sockets and a running thread behind
    in the half-made client: these are closed here. NotReached says what went wrong, KafkaRefused
    what to do about it.
    """
    made: list[Network] = []

    def remember(**configs: Any) -> Network:
        client = network(**configs)
        cluster = client.cluster
        cluster._listeners = _Listeners(cluster._listeners)  # noqa: SLF001  nothing public does
        made.append(client)
        return client

    try:
        return kind(*topics, kafka_client=remember, **options), made[0]
    except (KafkaError, OSError) as error:
        refusals = [refusal_of(error), *(client.refusal for client in made)]
        for client in made:
            client.close()
        if refused := next(filter(None, refusals), None):
            raise refused from error
        raise NotReached(_unreached(options.get("bootstrap_servers", ()), error)) from error


def _unreached(hosts: Sequence[str], error: Exception) -> str:
    """Return the sentence of the error, without its reason if that is only a timeout."""
    why = "" if isinstance(error, KafkaTimeoutError) else f": {error}"
    return f"Kafka does not answer at {', '.join(hosts)}{why}"


class NotReached(KafkaUnavailable):
    """None of Kafka's brokers could be connected to."""


class NoTopic(KafkaUnavailable):
    """Kafka answers, and has no topic of this name; the work waits for it."""

    def __init__(self, topic: str) -> None:
        super().__init__(
            f"Kafka has no topic {topic}: restart a kafka-monitor, which creates it, or create it"
        )


def is_missing(network: KafkaNetClient, topic: str) -> bool:
    """Return whether a connected broker has reported that there is no such topic."""
    cluster = network.cluster
    is_connected = any(network.connected(broker.node_id) for broker in cluster.brokers())
    return is_connected and cluster.partitions_for_topic(topic) is None


class _Listeners(set[Any]):
    """Listeners for new metadata; the set may grow during iteration.

    kafka-python iterates over them on its own thread while the client that is being made adds to
    them. The error would silently end the task that requests metadata, and every call that waits
    for metadata would never return.
    """

    def __iter__(self) -> Iterator[Any]:
        return iter(tuple(super().__iter__()))


@contextmanager
def admin(kafka: Kafka, client_id: str) -> Iterator[KafkaAdminClient]:
    """An admin client for the length of a block; it blocks, so use it on a thread of its own."""
    client, _ = open_client(KafkaAdminClient, **kafka.named(client_id).options())
    try:
        yield client
    except KafkaError as error:
        said = KafkaUnavailable(f"Kafka rejected the request: {error}")
        raise refusal_of(error) or said from error
    finally:
        client.close()
