"""TLS and authentication of the connections to Kafka, Redis and ZooKeeper.

A process uses one security configuration per server. For ZooKeeper it is set once, when the
settings are read, and applies to every client that is created later. Clients of Kafka and Redis
receive it as options.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field, SecretStr

from crawlstream.boot.sections.section import Section, new
from crawlstream.bus import connect as kafka
from crawlstream.errors import ConfigError
from crawlstream.zoo import client as zookeeper


class KafkaAccess(Section):
    """Kafka: TLS and authentication."""

    kafka_security: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = Field(
        "PLAINTEXT", validation_alias=new("KAFKA_SECURITY_PROTOCOL")
    )
    """Security protocol of connections to Kafka."""
    kafka_sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] = Field(
        "PLAIN", validation_alias=new("KAFKA_SASL_MECHANISM")
    )
    """SASL mechanism."""
    kafka_username: str | None = Field(None, validation_alias=new("KAFKA_SASL_USERNAME"))
    """SASL user name."""
    kafka_password: SecretStr | None = Field(None, validation_alias=new("KAFKA_SASL_PASSWORD"))
    """SASL password."""
    kafka_ca_file: str | None = Field(None, validation_alias=new("KAFKA_SSL_CAFILE"))
    """File of CA certificates (PEM) that verify the brokers; default: the system's."""
    kafka_certificate_file: str | None = Field(None, validation_alias=new("KAFKA_SSL_CERTFILE"))
    """File of the client certificate (PEM), if the brokers require one."""
    kafka_key_file: str | None = Field(None, validation_alias=new("KAFKA_SSL_KEYFILE"))
    """File of the client certificate's private key (PEM)."""
    kafka_key_password: SecretStr | None = Field(
        None, validation_alias=new("KAFKA_SSL_KEY_PASSWORD")
    )
    """Password of the private key."""
    kafka_check_hostname: bool = Field(
        default=True, validation_alias=new("KAFKA_SSL_CHECK_HOSTNAME")
    )
    """Verify that the broker's certificate matches its host name."""


class RedisAccess(Section):
    """Redis: TLS and authentication."""

    redis_username: str | None = Field(
        None, validation_alias=new("REDIS_USERNAME", "REDIS_USERNAME")
    )
    """ACL user name; default: the user ``default``."""
    redis_password: SecretStr | None = None
    """Password, if Redis requires one."""
    redis_tls: bool = Field(default=False, validation_alias=new("REDIS_TLS", "REDIS_TLS"))
    """Connect with TLS."""
    redis_ca_file: str | None = Field(None, validation_alias=new("REDIS_SSL_CAFILE"))
    """File of CA certificates (PEM) that verify Redis; default: the system's."""
    redis_certificate_file: str | None = Field(None, validation_alias=new("REDIS_SSL_CERTFILE"))
    """File of the client certificate (PEM), if Redis requires one."""
    redis_key_file: str | None = Field(None, validation_alias=new("REDIS_SSL_KEYFILE"))
    """File of the client certificate's private key (PEM)."""
    redis_key_password: SecretStr | None = Field(
        None, validation_alias=new("REDIS_SSL_KEY_PASSWORD")
    )
    """Password of the private key."""
    redis_check_hostname: bool = Field(
        default=True, validation_alias=new("REDIS_SSL_CHECK_HOSTNAME")
    )
    """Verify that the certificate of Redis matches its host name."""


class ZooKeeperAccess(Section):
    """ZooKeeper: TLS and authentication."""

    zookeeper_username: str | None = Field(None, validation_alias=new("ZOOKEEPER_USERNAME"))
    """User name of the ``digest`` scheme. Nodes that crawlstream creates are then accessible to
    this user only."""
    zookeeper_password: SecretStr | None = Field(None, validation_alias=new("ZOOKEEPER_PASSWORD"))
    """Password of that user."""
    zookeeper_tls: bool = Field(default=False, validation_alias=new("ZOOKEEPER_TLS"))
    """Connect with TLS, to ZooKeeper's secure client port."""
    zookeeper_ca_file: str | None = Field(None, validation_alias=new("ZOOKEEPER_SSL_CAFILE"))
    """File of CA certificates (PEM) that verify ZooKeeper; default: the system's."""
    zookeeper_certificate_file: str | None = Field(
        None, validation_alias=new("ZOOKEEPER_SSL_CERTFILE")
    )
    """File of the client certificate (PEM), if ZooKeeper requires one."""
    zookeeper_key_file: str | None = Field(None, validation_alias=new("ZOOKEEPER_SSL_KEYFILE"))
    """File of the client certificate's private key (PEM)."""
    zookeeper_key_password: SecretStr | None = Field(
        None, validation_alias=new("ZOOKEEPER_SSL_KEY_PASSWORD")
    )
    """Password of the private key."""
    zookeeper_check_hostname: bool = Field(
        default=True, validation_alias=new("ZOOKEEPER_SSL_CHECK_HOSTNAME")
    )
    """Verify that the certificate of ZooKeeper matches its host name."""


class Access(KafkaAccess, RedisAccess, ZooKeeperAccess):
    """TLS and authentication for Kafka, Redis and ZooKeeper."""

    def apply(self) -> None:
        """Configure the ZooKeeper clients created from now on; ConfigError if a part is missing.

        Options that only make sense with TLS are refused without it. Otherwise an operator could
        believe that an unencrypted connection is protected.
        """
        self._check_kafka()
        self._check_redis()
        self._apply_to_zookeeper()

    @property
    def kafka_access(self) -> kafka.KafkaSecurity:
        """TLS and authentication of connections to Kafka."""
        is_sasl = self.kafka_security.startswith("SASL")
        return kafka.KafkaSecurity(
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

    def _check_kafka(self) -> None:
        is_sasl = self.kafka_security.startswith("SASL")
        if is_sasl and not (self.kafka_username and self.kafka_password):
            raise ConfigError(
                f"CRAWLSTREAM_KAFKA_SECURITY_PROTOCOL: {self.kafka_security} needs a user: set"
                " CRAWLSTREAM_KAFKA_SASL_USERNAME and CRAWLSTREAM_KAFKA_SASL_PASSWORD"
            )

    def _check_redis(self) -> None:
        if self.redis_username and not revealed(self.redis_password):
            raise ConfigError(
                "CRAWLSTREAM_REDIS_USERNAME is set without a password: set REDIS_PASSWORD"
            )
        files = (self.redis_ca_file, self.redis_certificate_file, self.redis_key_file)
        _refuse_half("REDIS", is_tls=self.redis_tls, files=files)

    def _apply_to_zookeeper(self) -> None:
        password = revealed(self.zookeeper_password)
        if bool(self.zookeeper_username) != bool(password):
            raise ConfigError(
                "CRAWLSTREAM_ZOOKEEPER_USERNAME and CRAWLSTREAM_ZOOKEEPER_PASSWORD: set both or"
                " neither"
            )
        ca, certificate, key = (
            self.zookeeper_ca_file,
            self.zookeeper_certificate_file,
            self.zookeeper_key_file,
        )
        _refuse_half("ZOOKEEPER", is_tls=self.zookeeper_tls, files=(ca, certificate, key))
        zookeeper.secure(
            zookeeper.ZooKeeperSecurity(
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
    """Refuse incomplete TLS settings: ``files`` are the authority, the certificate and its key."""
    _, certificate, key = files
    if any(files) and not is_tls:
        raise ConfigError(
            f"CRAWLSTREAM_{server}_SSL_… has no effect without TLS:"
            f" set CRAWLSTREAM_{server}_TLS=true"
        )
    if bool(certificate) != bool(key):
        raise ConfigError(
            f"CRAWLSTREAM_{server}_SSL_CERTFILE and CRAWLSTREAM_{server}_SSL_KEYFILE: set"
            " both or neither"
        )
