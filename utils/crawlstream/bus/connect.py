"""Connections to Kafka: one place for what every client of ours is told."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from kafka import KafkaAdminClient
from kafka.errors import KafkaError, KafkaTimeoutError
from kafka.net.compat import KafkaNetClient

from crawlstream.bus.codecs import Codec
from crawlstream.bus.shape import TopicShape
from crawlstream.errors import KafkaUnavailable

BOOTSTRAP_TIMEOUT_MS = 3_000
"""How long one attempt to reach any of the hosts takes at most; whoever attempts, repeats."""

REQUEST_TIMEOUT_MS = 5_000
"""A broker that does not answer for this long is connected to anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Security:
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
    """What Kafka calls the clients in its log, metrics and quotas."""
    security: Security = field(default=Security(), repr=False)
    codec: Codec = "gzip"
    """How produced records are compressed."""
    shape: TopicShape = field(default_factory=TopicShape)
    """How topics are created, and how large a record may be."""

    def named(self, client_id: str) -> Kafka:
        """The same, for clients of another name."""
        return replace(self, client_id=client_id)

    def options(self) -> dict[str, Any]:
        """What producers, consumers and admin clients of kafka-python share."""
        security = asdict(self.security)
        return {name: value for name, value in security.items() if value is not None} | {
            "bootstrap_servers": list(self.hosts),
            "client_id": self.client_id,
            "bootstrap_timeout_ms": BOOTSTRAP_TIMEOUT_MS,
            "request_timeout_ms": REQUEST_TIMEOUT_MS,
            # A broker that comes back is noticed within a second, not within half a minute.
            "reconnect_backoff_max_ms": 1_000,
        }


def open_client(
    kind: type, *topics: str, network: type[KafkaNetClient] = KafkaNetClient, **options: Any
) -> tuple[Any, KafkaNetClient]:
    """Make a kafka-python client over ``network`` and hand out its network client, too.

    A constructor that cannot reach Kafka raises, and leaves sockets and a running thread behind
    in the half-made client: these are closed here. NotReached says what went wrong.
    """
    made: list[KafkaNetClient] = []

    def remember(**configs: Any) -> KafkaNetClient:
        client = network(**configs)
        cluster = client.cluster
        cluster._listeners = _Listeners(cluster._listeners)  # noqa: SLF001  nothing public does
        made.append(client)
        return client

    try:
        return kind(*topics, kafka_client=remember, **options), made[0]
    except (KafkaError, OSError) as error:
        for client in made:
            client.close()
        raise NotReached(_unreached(options.get("bootstrap_servers", ()), error)) from error


def _unreached(hosts: Sequence[str], error: Exception) -> str:
    """One sentence; that time ran out is all that the client knows, and says nothing new."""
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
    """Whether a broker that is connected to has told that there is no such topic."""
    cluster = network.cluster
    is_connected = any(network.connected(broker.node_id) for broker in cluster.brokers())
    return is_connected and cluster.partitions_for_topic(topic) is None


class _Listeners(set[Any]):
    """Who is told of new metadata; may grow meanwhile.

    kafka-python walks along them on its own thread while the client that is being made adds to
    them. The error would end the task that asks for metadata, unheard, and every call that waits
    for some would wait for ever.
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
        raise KafkaUnavailable(f"Kafka rejected the request: {error}") from error
    finally:
        client.close()
