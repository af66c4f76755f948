"""How the three servers are talked to: who we are to each, and how we know that it is the one.

A process has one way to talk to each. That of Kafka and of ZooKeeper is set when the settings are
read, for every client from then on; Redis' clients are made from the settings themselves.
"""

from __future__ import annotations

from typing import Literal

from pydantic import AliasChoices, Field, SecretStr
from pydantic_settings import BaseSettings

from crawlstream.bus import connect as kafka
from crawlstream.errors import ConfigError
from crawlstream.throttle import connect as zookeeper


def new(name: str) -> AliasChoices:
    """A setting of our own: only the prefixed variable sets it."""
    return AliasChoices(f"CRAWLSTREAM_{name}")


class KafkaAccess(BaseSettings):
    """Kafka: who we are to it, and it to us."""

    kafka_security: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = Field(
        "PLAINTEXT", validation_alias=new("KAFKA_SECURITY_PROTOCOL")
    )
    """How brokers are talked to."""
    kafka_sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] = Field(
        "PLAIN", validation_alias=new("KAFKA_SASL_MECHANISM")
    )
    """How we say who we are."""
    kafka_username: str | None = Field(None, validation_alias=new("KAFKA_SASL_USERNAME"))
    """Who we are."""
    kafka_password: SecretStr | None = Field(None, validation_alias=new("KAFKA_SASL_PASSWORD"))
    """How we prove it."""
    kafka_ca_file: str | None = Field(None, validation_alias=new("KAFKA_SSL_CAFILE"))
    """Certificates that Kafka's is checked against; default: those of the machine."""
    kafka_certificate_file: str | None = Field(None, validation_alias=new("KAFKA_SSL_CERTFILE"))
    """Our own certificate, where Kafka asks for one."""
    kafka_key_file: str | None = Field(None, validation_alias=new("KAFKA_SSL_KEYFILE"))
    """The private key of our certificate."""
    kafka_key_password: SecretStr | None = Field(
        None, validation_alias=new("KAFKA_SSL_KEY_PASSWORD")
    )
    """The password of that key."""
    kafka_check_hostname: bool = Field(
        default=True, validation_alias=new("KAFKA_SSL_CHECK_HOSTNAME")
    )
    """Whether a broker's certificate must name its host."""


class RedisAccess(BaseSettings):
    """Redis: who we are to it, and it to us."""

    redis_username: str | None = Field(
        None, validation_alias=AliasChoices("CRAWLSTREAM_REDIS_USERNAME", "REDIS_USERNAME")
    )
    """Who we are by its access list; default: its ``default`` user."""
    REDIS_PASSWORD: SecretStr | None = None
    """How we prove it, where it asks."""
    redis_tls: bool = Field(
        default=False, validation_alias=AliasChoices("CRAWLSTREAM_REDIS_TLS", "REDIS_TLS")
    )
    """Whether it is talked to through TLS."""
    redis_ca_file: str | None = Field(None, validation_alias=new("REDIS_SSL_CAFILE"))
    """Certificates that its own is checked against; default: those of the machine."""
    redis_certificate_file: str | None = Field(None, validation_alias=new("REDIS_SSL_CERTFILE"))
    """Our own certificate, where it asks for one."""
    redis_key_file: str | None = Field(None, validation_alias=new("REDIS_SSL_KEYFILE"))
    """The private key of our certificate."""
    redis_key_password: SecretStr | None = Field(
        None, validation_alias=new("REDIS_SSL_KEY_PASSWORD")
    )
    """The password of that key."""
    redis_check_hostname: bool = Field(
        default=True, validation_alias=new("REDIS_SSL_CHECK_HOSTNAME")
    )
    """Whether its certificate must name its host."""


class ZooKeeperAccess(BaseSettings):
    """ZooKeeper: who we are to it, and it to us."""

    zookeeper_username: str | None = Field(None, validation_alias=new("ZOOKEEPER_USERNAME"))
    """Who we are, by the scheme ``digest``; nodes that we make are then for this user alone."""
    zookeeper_password: SecretStr | None = Field(None, validation_alias=new("ZOOKEEPER_PASSWORD"))
    """How we prove it."""
    zookeeper_tls: bool = Field(default=False, validation_alias=new("ZOOKEEPER_TLS"))
    """Whether it is talked to through TLS, on its secure port."""
    zookeeper_ca_file: str | None = Field(None, validation_alias=new("ZOOKEEPER_SSL_CAFILE"))
    """Certificates that its own is checked against; default: those of the machine."""
    zookeeper_certificate_file: str | None = Field(
        None, validation_alias=new("ZOOKEEPER_SSL_CERTFILE")
    )
    """Our own certificate, where it asks for one."""
    zookeeper_key_file: str | None = Field(None, validation_alias=new("ZOOKEEPER_SSL_KEYFILE"))
    """The private key of our certificate."""
    zookeeper_key_password: SecretStr | None = Field(
        None, validation_alias=new("ZOOKEEPER_SSL_KEY_PASSWORD")
    )
    """The password of that key."""
    zookeeper_check_hostname: bool = Field(
        default=True, validation_alias=new("ZOOKEEPER_SSL_CHECK_HOSTNAME")
    )
    """Whether its certificate must name its host."""


class Access(KafkaAccess, RedisAccess, ZooKeeperAccess):
    """All three."""

    def apply(self) -> None:
        """Have every client from now on talk so; ConfigError where a part is missing.

        What only makes sense with TLS is refused without it: nobody means to be protected and
        talks in the clear.
        """
        self._apply_to_kafka()
        self._check_redis()
        self._apply_to_zookeeper()

    def _apply_to_kafka(self) -> None:
        is_sasl = self.kafka_security.startswith("SASL")
        if is_sasl and not (self.kafka_username and self.kafka_password):
            raise ConfigError(
                f"CRAWLSTREAM_KAFKA_SECURITY_PROTOCOL: {self.kafka_security} needs"
                " CRAWLSTREAM_KAFKA_SASL_USERNAME and CRAWLSTREAM_KAFKA_SASL_PASSWORD"
            )
        kafka.secure(
            kafka.Security(
                security_protocol=self.kafka_security,
                sasl_mechanism=self.kafka_sasl_mechanism if is_sasl else None,
                sasl_plain_username=self.kafka_username,
                sasl_plain_password=revealed(self.kafka_password),
                ssl_cafile=self.kafka_ca_file,
                ssl_certfile=self.kafka_certificate_file,
                ssl_keyfile=self.kafka_key_file,
                ssl_password=revealed(self.kafka_key_password),
                ssl_check_hostname=self.kafka_check_hostname,
            )
        )

    def _check_redis(self) -> None:
        if self.redis_username and not revealed(self.REDIS_PASSWORD):
            raise ConfigError("CRAWLSTREAM_REDIS_USERNAME: needs REDIS_PASSWORD")
        files = (self.redis_ca_file, self.redis_certificate_file, self.redis_key_file)
        _refuse_half("REDIS", is_tls=self.redis_tls, files=files)

    def _apply_to_zookeeper(self) -> None:
        password = revealed(self.zookeeper_password)
        if bool(self.zookeeper_username) != bool(password):
            raise ConfigError(
                "CRAWLSTREAM_ZOOKEEPER_USERNAME and CRAWLSTREAM_ZOOKEEPER_PASSWORD: one needs"
                " the other"
            )
        ca, certificate, key = (
            self.zookeeper_ca_file,
            self.zookeeper_certificate_file,
            self.zookeeper_key_file,
        )
        _refuse_half("ZOOKEEPER", is_tls=self.zookeeper_tls, files=(ca, certificate, key))
        zookeeper.secure(
            zookeeper.Security(
                digest=f"{self.zookeeper_username}:{password}" if password else None,
                use_ssl=self.zookeeper_tls,
                ca=ca,
                certfile=certificate,
                keyfile=key,
                keyfile_password=revealed(self.zookeeper_key_password),
                check_hostname=self.zookeeper_check_hostname,
            )
        )


def revealed(value: SecretStr | None) -> str | None:
    """The secret itself."""
    return None if value is None else value.get_secret_value()


def _refuse_half(server: str, *, is_tls: bool, files: tuple[str | None, ...]) -> None:
    """``files`` are those of the authority, of our certificate and of its key."""
    _, certificate, key = files
    if any(files) and not is_tls:
        raise ConfigError(f"CRAWLSTREAM_{server}_SSL_…: needs CRAWLSTREAM_{server}_TLS=true")
    if bool(certificate) != bool(key):
        raise ConfigError(
            f"CRAWLSTREAM_{server}_SSL_CERTFILE and CRAWLSTREAM_{server}_SSL_KEYFILE: one needs"
            " the other"
        )
