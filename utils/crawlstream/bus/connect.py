"""Connections to Kafka: one place for what every client of ours is told."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

from kafka import KafkaAdminClient
from kafka.errors import KafkaError, KafkaTimeoutError
from kafka.net.compat import KafkaNetClient

from crawlstream.errors import KafkaUnavailable

BOOTSTRAP_TIMEOUT_MS = 3_000
"""How long one attempt to reach any of the hosts takes at most; whoever attempts, repeats."""

REQUEST_TIMEOUT_MS = 5_000
"""A broker that does not answer for this long is connected to anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Security:
    """How Kafka is talked to, in the words of kafka-python; a process has one way."""

    security_protocol: str = "PLAINTEXT"
    sasl_mechanism: str | None = None
    sasl_plain_username: str | None = None
    sasl_plain_password: str | None = None
    ssl_cafile: str | None = None
    ssl_certfile: str | None = None
    ssl_keyfile: str | None = None
    ssl_password: str | None = None
    ssl_check_hostname: bool = True


_security = Security()


def secure(security: Security) -> None:
    """Have every connection from now on made so; called when the settings are read."""
    global _security  # noqa: PLW0603  of the process, like its environment
    _security = security


def common_options(hosts: Sequence[str], client_id: str) -> dict[str, Any]:
    """What producers, consumers and admin clients share."""
    told = {name: value for name, value in asdict(_security).items() if value is not None}
    return told | {
        "bootstrap_servers": list(hosts),
        "client_id": client_id,
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


class _Listeners(set[Any]):
    """Who is told of new metadata; may grow meanwhile.

    kafka-python walks along them on its own thread while the client that is being made adds to
    them. The error would end the task that asks for metadata, unheard, and every call that waits
    for some would wait for ever.
    """

    def __iter__(self) -> Iterator[Any]:
        return iter(tuple(super().__iter__()))


@contextmanager
def admin(hosts: Sequence[str], client_id: str) -> Iterator[KafkaAdminClient]:
    """An admin client for the length of a block; it blocks, so use it on a thread of its own."""
    client, _ = open_client(KafkaAdminClient, **common_options(hosts, client_id))
    try:
        yield client
    except KafkaError as error:
        raise KafkaUnavailable(f"Kafka rejected the request: {error}") from error
    finally:
        client.close()
