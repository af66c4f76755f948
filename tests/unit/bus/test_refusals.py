"""Errors of Kafka: some pass by themselves, some only after a person has acted."""

from __future__ import annotations

import gc
import logging
import ssl
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from socket import create_server

import pytest
from kafka import errors

from crawlstream.boot.startup import until_ready
from crawlstream.bus.access.refusals import refusal_of
from crawlstream.bus.connect import Kafka, KafkaSecurity, admin
from crawlstream.errors import ConfigError, KafkaRefused
from support.crawler.tls import make_certificate


@pytest.mark.parametrize(
    "error",
    [
        errors.KafkaTimeoutError("Unable to bootstrap"),
        errors.KafkaConnectionError("Connection refused"),
        errors.NodeNotReadyError(),
        errors.CoordinatorNotAvailableError(),
        errors.NotEnoughReplicasError(),
        errors.UnknownTopicOrPartitionError(),
        ConnectionRefusedError(),
    ],
    ids=repr,
)
def test_what_time_heals_is_no_refusal(error: Exception) -> None:
    """It starts, fails over or is away: the process goes on waiting."""
    assert refusal_of(error) is None


@pytest.mark.parametrize(
    ("error", "remedy"),
    [
        (errors.SaslAuthenticationFailedError("Invalid username"), "CRAWLSTREAM_KAFKA_SASL_PASS"),
        (errors.UnsupportedSaslMechanismError("PLAIN"), "CRAWLSTREAM_KAFKA_SASL_MECHANISM"),
        (errors.IllegalSaslStateError(), "CRAWLSTREAM_KAFKA_SECURITY_PROTOCOL"),
        (errors.TopicAuthorizationFailedError("t"), r"topic.*docs/security\.md"),
        (errors.GroupAuthorizationFailedError("g"), r"group.*docs/security\.md"),
        (errors.ClusterAuthorizationFailedError(), r"cluster.*docs/security\.md"),
        (errors.TransactionalIdAuthorizationFailedError(), r"transactional.*docs/security\.md"),
    ],
)
async def test_a_refusal_ends_the_start(error: Exception, remedy: str) -> None:
    """Ends the waiting with a sentence that quotes Kafka."""
    refused = refusal_of(error)
    assert refused
    assert str(error) in str(refused)
    assert "\n" not in str(refused)

    async def attempt() -> None:
        raise refused

    with pytest.raises(ConfigError, match=remedy):
        await until_ready("kafka", attempt)


@pytest.fixture
def untrusted(tmp_path: Path) -> Iterator[int]:
    """A port that speaks TLS with a certificate that is signed by itself."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(make_certificate(tmp_path))
    with create_server(("127.0.0.1", 0)) as listener:

        def greet() -> None:
            with suppress(OSError):
                while True:
                    visitor, _ = listener.accept()
                    with suppress(OSError), visitor:
                        context.wrap_socket(visitor, server_side=True)

        thread = threading.Thread(target=greet, daemon=True)
        thread.start()
        yield listener.getsockname()[1]
        listener.shutdown(2)
    thread.join(10)


@pytest.mark.filterwarnings(
    # kafka-python forgets to close what it could not greet.
    "ignore:unclosed:ResourceWarning",
    "ignore::pytest.PytestUnraisableExceptionWarning",
)
def test_a_certificate_that_is_not_trusted_is_a_refusal(
    untrusted: int, caplog: pytest.LogCaptureFixture
) -> None:
    """kafka-python logs it and tries again until its time is over; the reason is behind that."""
    caplog.set_level(logging.CRITICAL + 1, "kafka")
    kafka = Kafka([f"127.0.0.1:{untrusted}"], security=KafkaSecurity(security_protocol="SSL"))
    with pytest.raises(KafkaRefused, match=r"SSL_CAFILE.*self-signed"), admin(kafka, "test"):
        pass
    gc.collect()
