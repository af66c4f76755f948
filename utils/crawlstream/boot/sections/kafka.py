"""Settings of Kafka: topics, and how they are read and written."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from crawlstream.boot.sections.section import Hosts, Section, check_addresses, new
from crawlstream.bus.codecs import Codec
from crawlstream.keys import Topics


class KafkaSettings(Section):
    """Kafka: incoming requests and outgoing records."""

    kafka_hosts: Hosts = ("localhost:9092",)
    """Bootstrap brokers, as comma-separated ``host:port``."""
    kafka_topic_prefix: str = "demo"
    """Prefix of every topic name."""
    kafka_incoming_topic: str | None = None
    """Topic of incoming requests; default: ``<KAFKA_TOPIC_PREFIX>.incoming``."""
    kafka_group: str = "demo-group"
    """Consumer group of the kafka-monitors."""
    kafka_appid_topics: bool = False
    """Also send each outgoing record to a topic per appid."""
    kafka_feed_timeout: float = Field(10, gt=0)
    """Seconds that a producer waits for Kafka's acknowledgement before it reports an error."""
    kafka_compression: Codec = "gzip"
    """Compression codec of produced records. Every Kafka client reads `gzip` and `none`; `lz4`,
    `zstd` and `snappy` need an extra package in some clients; `zstd` is the smallest."""
    cloudevents: bool = Field(default=True, validation_alias=new("CLOUDEVENTS"))
    """Add headers of CloudEvents 1.0 to the records of ``<KAFKA_TOPIC_PREFIX>.events``; their
    values stay as they are."""
    kafka_base_64_encode: bool = False
    """Encode every body as base64, text bodies included."""
    incoming_partitions: int = Field(4, validation_alias=new("INCOMING_PARTITIONS"), ge=1)
    """Number of partitions of newly created topics; existing topics are not changed."""
    replication: int = Field(1, validation_alias=new("REPLICATION"), ge=1)
    """Replication factor of newly created topics."""
    max_record_bytes: int = Field(
        8 * 1024 * 1024, validation_alias=new("MAX_RECORD_BYTES"), ge=1024 * 1024
    )
    """Value of ``max.message.bytes`` for newly created topics."""
    max_topics: int = Field(1_000, validation_alias=new("MAX_TOPICS"), ge=10)
    """Maximum number of topics with this prefix. When it is reached, no more topics are created for
    single appids."""

    @model_validator(mode="after")
    def _check_brokers(self) -> Self:
        if not self.kafka_hosts:
            raise ValueError("KAFKA_HOSTS: name at least one broker, as host:port")
        check_addresses("KAFKA_HOSTS", self.kafka_hosts, default_port=9092)
        return self

    @property
    def topics(self) -> Topics:
        """The topics of this cluster."""
        return Topics(self.kafka_topic_prefix, self.kafka_incoming_topic)
