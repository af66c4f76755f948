"""Errors of Kafka that only an operator can fix, as sentences with their remedies."""

from __future__ import annotations

import ssl
from collections.abc import Iterator, Sequence

from kafka.errors import (
    ClusterAuthorizationFailedError,
    GroupAuthorizationFailedError,
    IllegalSaslStateError,
    SaslAuthenticationFailedError,
    TopicAuthorizationFailedError,
    TransactionalIdAuthorizationFailedError,
    UnsupportedSaslMechanismError,
)

from crawlstream.errors import KafkaRefused

RIGHTS = "give its user the rights in docs/security.md (Rights in Kafka)"
_REMEDIES: Sequence[tuple[type[Exception], str]] = (
    (
        SaslAuthenticationFailedError,
        (
            "Kafka does not accept the user or password: set CRAWLSTREAM_KAFKA_SASL_USERNAME and"
            " CRAWLSTREAM_KAFKA_SASL_PASSWORD"
        ),
    ),
    (
        UnsupportedSaslMechanismError,
        "Kafka does not offer this way to log in: set CRAWLSTREAM_KAFKA_SASL_MECHANISM",
    ),
    (
        IllegalSaslStateError,
        "Kafka expects no login on this port: set CRAWLSTREAM_KAFKA_SECURITY_PROTOCOL",
    ),
    (TopicAuthorizationFailedError, f"Kafka refuses a right on a topic: {RIGHTS}"),
    (GroupAuthorizationFailedError, f"Kafka refuses a right on a consumer group: {RIGHTS}"),
    (ClusterAuthorizationFailedError, f"Kafka refuses a right on the cluster: {RIGHTS}"),
    (
        TransactionalIdAuthorizationFailedError,
        f"Kafka refuses a right on a transactional id: {RIGHTS}",
    ),
    (
        ssl.SSLCertVerificationError,
        (
            "the certificate of Kafka is not trusted: set CRAWLSTREAM_KAFKA_SSL_CAFILE to its"
            " authority, and connect by a name that it bears"
        ),
    ),
)


def refusal_of(error: BaseException) -> KafkaRefused | None:
    """Return the remedy of an error or of its cause; None where waiting may help."""
    for cause in _causes(error):
        if isinstance(cause, KafkaRefused):
            return cause
        for kind, remedy in _REMEDIES:
            if isinstance(cause, kind):
                return KafkaRefused(f"{remedy} ({cause})")
    return None


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
