"""Startup settings: one frozen object a process, from environment and ``.env``.

The predecessor's variables keep their bare names; new ones begin with ``CRAWLSTREAM_``.
Settings that change while the cluster runs are not here: they are the throttle rules.
"""

from __future__ import annotations

from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Annotated, Any, Literal

from pydantic import (
    AliasChoices,
    BeforeValidator,
    Field,
    ValidationError,
)
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from crawlstream.boot.access import Access, new
from crawlstream.boot.api_keys import ApiKey, read_keys
from crawlstream.bus.codecs import Codec
from crawlstream.bus.topics import TopicShape
from crawlstream.errors import ConfigError
from crawlstream.keys import FrontierKeys, Topics
from crawlstream.model.request import RequestLimits
from crawlstream.model.throttle import ThrottleRule

Network = IPv4Network | IPv6Network


def _parts(value: Any) -> Any:
    """The parts of ``a:1,b:2``; a sequence as it is."""
    if not isinstance(value, str):
        return value
    return tuple(part.strip() for part in value.split(",") if part.strip())


def _networks(value: Any) -> Any:
    return tuple(ip_network(str(part)) for part in _parts(value))


Hosts = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_parts)]


def _upper_case(value: Any) -> Any:
    return value.upper() if isinstance(value, str) else value


class Scope(BaseSettings):
    """Whom the limits of a domain are for; the same in every process of a cluster."""

    SCHEDULER_TYPE_ENABLED: bool = False
    """Whether each spider type has limits of its own; a site then sees those of all together."""
    SCHEDULER_IP_ENABLED: bool = False
    """Whether each egress group has, as the site sees each from an address of its own."""
    egress_group: str = Field(
        "", validation_alias=new("EGRESS_GROUP"), pattern=r"^[A-Za-z0-9._-]{0,64}$"
    )
    """The address, or the pool of addresses, from which this crawler asks."""

    @property
    def throttle_scope(self) -> str:
        """What limits are kept for beside the domain, as the frontier says it."""
        words = {"type": self.SCHEDULER_TYPE_ENABLED, "group": self.SCHEDULER_IP_ENABLED}
        return " ".join(word for word, is_enabled in words.items() if is_enabled)


class Settings(Scope, Access):
    """Every startup setting of every process, with unit and default.

    ConfigError is raised by :func:`load_settings`, never by a process in mid-work.
    """

    model_config = SettingsConfigDict(
        env_file=".env", extra="ignore", frozen=True, populate_by_name=True, case_sensitive=True
    )

    # Redis: the frontier.
    REDIS_HOST: str = "localhost"
    """Name or address."""
    REDIS_PORT: int = Field(6379, ge=1, le=65535)
    """Its port."""
    REDIS_DB: int = Field(0, ge=0)
    """Number of the database."""
    REDIS_SOCKET_TIMEOUT: float = Field(10, gt=0)
    """Seconds that Redis may take for an answer."""
    namespace: str = Field("cs", validation_alias=new("NAMESPACE"), pattern=r"^[a-z][a-z0-9_]*$")
    """First part of every Redis key, so that clusters can share a Redis."""

    # Kafka: the way in and the way out.
    KAFKA_HOSTS: Hosts = ("localhost:9092",)
    """``host:port`` of some brokers, separated by commas."""
    KAFKA_TOPIC_PREFIX: str = "demo"
    """First part of every topic's name."""
    KAFKA_INCOMING_TOPIC: str | None = None
    """Default: ``<KAFKA_TOPIC_PREFIX>.incoming``."""
    KAFKA_GROUP: str = "demo-group"
    """Consumer group of the kafka-monitors."""
    KAFKA_APPID_TOPICS: bool = False
    """Also send each record to the topic of its appid."""
    KAFKA_FEED_TIMEOUT: float = Field(10, gt=0)
    """Seconds a producer waits for Kafka's acknowledgement before it says so."""
    KAFKA_COMPRESSION: Codec = "gzip"
    """How records are packed. Any client reads `gzip` and `none`; `lz4`, `zstd` and `snappy` cost
    less, and want a package of their own in some clients."""
    KAFKA_BASE_64_ENCODE: bool = False
    """Send every body as base64, text too."""
    incoming_partitions: int = Field(4, validation_alias=new("INCOMING_PARTITIONS"), ge=1)
    """Partitions a topic is created with; existing topics are left alone."""
    replication: int = Field(1, validation_alias=new("REPLICATION"), ge=1)
    """Copies that a topic is created with."""
    max_record_bytes: int = Field(
        8 * 1024 * 1024, validation_alias=new("MAX_RECORD_BYTES"), ge=1024 * 1024
    )
    """Largest record that topics are created for."""
    max_topics: int = Field(1_000, validation_alias=new("MAX_TOPICS"), ge=10)
    """Topics under the prefix: where there are so many, no application gets one of its own."""

    # ZooKeeper: the rules of politeness.
    ZOOKEEPER_HOSTS: Hosts = ("localhost:2181",)
    """``host:port`` of its servers, separated by commas."""
    ZOOKEEPER_ASSIGN_PATH: str = "/scrapy-cluster/crawler/"
    """Folder of the node that holds the rules."""
    ZOOKEEPER_ID: str = "all"
    """Name of the node in it."""

    # The default rule: written once into the node's ``default``, changed there from then on.
    QUEUE_HITS: int = Field(10, ge=0)
    """Requests in any window."""
    QUEUE_WINDOW: float = Field(60, gt=0)
    """Its length in seconds."""
    QUEUE_MODERATED: bool = True
    """Whether requests are spread evenly over the window."""

    # Crawling.
    DUPEFILTER_TIMEOUT: int = Field(600, ge=0)
    """Seconds that a crawl's dedupe outlives its last ending."""
    RETRY_TIMES: int = Field(3, ge=0, le=20)
    """Attempts at a page after the first one."""
    DOWNLOAD_TIMEOUT: float = Field(10, gt=0)
    """Seconds that a response may take."""
    DOWNLOAD_VERIFY_CERTIFICATES: bool | None = None
    """Whether certificates of sites must hold; default: where a request carries cookies, headers of
    a client's own, or a body."""
    ROBOTSTXT_OBEY: bool = True
    """Whether robots.txt is obeyed."""
    SCHEDULER_BACKLOG_BLACKLIST: bool = True
    """Whether links into blocked domains wait until these are unblocked; else they are filtered."""
    METAREFRESH_ENABLED: bool = True
    """Whether a page that refreshes to another one is a redirect, as Scrapy has it."""
    METAREFRESH_MAXDELAY: float = Field(100, ge=0)
    """Seconds; a page that is to be read for longer is a page."""
    USER_AGENT: str = "crawlstream/0.1 (+https://example.com/set-USER_AGENT-to-a-contact-page)"
    """What sites see; put your contact page into it."""
    CONCURRENT_REQUESTS: int = Field(64, ge=1, le=1000)
    """Downloads at once in one crawler process, beside up to three times as many that take long."""
    max_depth: int = Field(
        100, validation_alias=AliasChoices("CRAWLSTREAM_MAX_DEPTH", "MAX_DEPTH"), ge=0, le=300
    )
    """Largest ``maxdepth`` that a request may ask for."""
    max_attrs_bytes: int = Field(65_536, validation_alias=new("MAX_ATTRS_BYTES"), ge=2)
    """Size of a request's ``attrs``, which every page and every result of the crawl carries."""
    allow_ignore_robots: bool = Field(default=False, validation_alias=new("ALLOW_IGNORE_ROBOTS"))
    """Whether a request may say ``"obey_robots": false``."""
    allow_networks: Annotated[tuple[Network, ...], NoDecode, BeforeValidator(_networks)] = Field(
        (), validation_alias=new("ALLOW_NETWORKS")
    )
    """Internal address ranges (CIDR, comma-separated) that may be crawled all the same, on every
    port, by every client and from every link."""
    deny_networks: Annotated[tuple[Network, ...], NoDecode, BeforeValidator(_networks)] = Field(
        (), validation_alias=new("DENY_NETWORKS")
    )
    """Address ranges that are never connected to, whatever is allowed besides."""
    finish_grace: float = Field(
        3, validation_alias=AliasChoices("CRAWLSTREAM_FINISH_GRACE", "FINISH_GRACE"), ge=0
    )
    """Seconds that a crawl stays idle before it is finished."""
    max_wait: float = Field(
        86_400, validation_alias=AliasChoices("CRAWLSTREAM_MAX_WAIT", "MAX_WAIT"), ge=0
    )
    """Seconds without any progress after which what waits in a run fails by name; 0: never."""
    max_queued_crawl: int = Field(0, validation_alias=new("MAX_QUEUED_CRAWL"), ge=0)
    """Pages of a crawl that may wait; links beyond are filtered, seeds rejected. 0: any number."""
    max_queued: int = Field(0, validation_alias=new("MAX_QUEUED"), ge=0)
    """Pages that may wait in all crawls together; 0: any number."""
    max_body_bytes: int = Field(4 * 1024 * 1024, validation_alias=new("MAX_BODY_BYTES"), ge=1024)
    """A body is cut at this size in its record."""
    body_store: str | None = Field(None, validation_alias=new("BODY_STORE"))
    """Folder for whole bodies that are cut in their records (``file:///…``, ``s3://…``)."""
    download_max_bytes: int = Field(
        16 * 1024 * 1024,
        validation_alias=AliasChoices("CRAWLSTREAM_DOWNLOAD_MAX_BYTES", "DOWNLOAD_MAXSIZE"),
        ge=1024,
    )
    """A response larger than this, decompressed, is given up as ``too_large``."""
    memory_limit_mb: int = Field(
        1024,
        validation_alias=AliasChoices("CRAWLSTREAM_MEMORY_LIMIT_MB", "MEMUSAGE_LIMIT_MB"),
        ge=0,
    )
    """A crawler process with more MiB in RAM drains and ends with 0, for a supervisor to start it
    anew; set it below the container's limit. 0: none."""
    max_age_s: float = Field(24 * 3600, validation_alias=new("MAX_AGE"), ge=0)
    """The same for a process of about so many seconds; 0: none."""
    notice: str = Field(
        "",
        validation_alias=new("NOTICE"),
        pattern=r"^(aws|gcp|azure|file:.+|[A-Za-z_]\w*(\.[A-Za-z_]\w*)+)?$",
    )
    """Where a crawler looks for the end of its machine: aws, gcp, azure, file:PATH, or a function
    package.module.name; on a notice it drains, as on SIGTERM. Empty: nowhere."""
    notice_s: float = Field(0, validation_alias=new("NOTICE_S"), ge=0)
    """Seconds from a notice to the end, before which unfinished pages are given back; 0: the
    cloud's (aws 120, others 30)."""
    notice_url: str = Field(
        "http://169.254.169.254", validation_alias=new("NOTICE_URL"), pattern=r"^http://[^/@]+$"
    )
    """The machine's metadata service."""
    max_path_segments: int = Field(20, validation_alias=new("MAX_PATH_SEGMENTS"), ge=0)
    """Links with a longer path are not followed (``path_depth``); 0: any."""
    max_path_repeats: int = Field(3, validation_alias=new("MAX_PATH_REPEATS"), ge=0)
    """Links in whose path a segment occurs more often are not followed (``path_repeats``)."""

    # REST.
    rest_host: str = Field("127.0.0.1", validation_alias=new("REST_HOST"))
    """The address that REST listens on; beyond loopback only with ``api_keys``."""
    rest_port: int = Field(
        5343, validation_alias=AliasChoices("CRAWLSTREAM_REST_PORT", "FLASK_PORT"), ge=1, le=65535
    )
    """Its port."""
    api_keys: Annotated[tuple[ApiKey, ...], NoDecode, BeforeValidator(read_keys)] = Field(
        (), validation_alias=new("API_KEYS"), repr=False
    )
    """``role:secret`` each, separated by commas; for some applications, and within quotas,
    ``role@appid+appid/name=…/rate=…/waiting=…:secret``. None: whoever reaches REST may do all."""
    rest_max_body_bytes: int = Field(
        16 * 1024 * 1024, validation_alias=new("REST_MAX_BODY_BYTES"), ge=1024
    )
    """Largest body of a request."""
    rest_rate: float = Field(2000, validation_alias=new("REST_RATE"), ge=0)
    """HTTP requests a second and client, twice as many at once; 0: any number."""
    rest_peer_connections: int = Field(500, validation_alias=new("REST_PEER_CONNECTIONS"), ge=1)
    """Connections of one address to REST; raise it where a proxy in front has more."""
    WAIT_FOR_RESPONSE_TIME: float = Field(5, gt=0)
    """Seconds that REST holds a request back for the cluster's reply."""

    # Logs, metrics, files.
    LOG_LEVEL: Annotated[
        Literal["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"], BeforeValidator(_upper_case)
    ] = "INFO"
    """The least that is said."""
    LOG_JSON: bool | None = None
    """Default: JSON unless standard error is a terminal."""
    metrics_base: int = Field(0, validation_alias=new("METRICS_PORT"), ge=0, le=65535)
    """First port of the health and metrics pages of a machine's processes; 0: none."""
    metrics_host: str = Field("127.0.0.1", validation_alias=new("METRICS_HOST"))
    """The address that they are served on; whoever reaches it may read them."""
    metrics_offset: int = Field(0, validation_alias=new("METRICS_OFFSET"), ge=0)
    """This process' place in that row of ports."""
    home: str = Field(".crawlstream", validation_alias=new("HOME"))
    """Folder for data, logs, jars and results of a local cluster."""

    @property
    def metrics_port(self) -> int:
        """Port of this process' health and metrics pages; 0: none."""
        return self.metrics_base and self.metrics_base + self.metrics_offset

    @property
    def keys(self) -> FrontierKeys:
        """The keys of this cluster's frontier."""
        return FrontierKeys(self.namespace)

    @property
    def topics(self) -> Topics:
        """The topics of this cluster."""
        return Topics(self.KAFKA_TOPIC_PREFIX, self.KAFKA_INCOMING_TOPIC)

    @property
    def request_limits(self) -> RequestLimits:
        """How much a request may ask for."""
        return RequestLimits(max_depth=self.max_depth, max_attrs_bytes=self.max_attrs_bytes)

    @property
    def topic_shape(self) -> TopicShape:
        """How topics are created, those of single applications too."""
        return TopicShape(
            partitions=self.incoming_partitions,
            replication=self.replication,
            max_record_bytes=self.max_record_bytes,
            most=self.max_topics,
        )

    @property
    def throttle_path(self) -> str:
        """The ZooKeeper node that holds the rules."""
        return f"/{self.ZOOKEEPER_ASSIGN_PATH.strip('/')}/{self.ZOOKEEPER_ID.strip('/')}"

    @property
    def default_rule(self) -> ThrottleRule:
        """The rule for domains without one, while the node has no ``default``."""
        return ThrottleRule(
            hits=self.QUEUE_HITS, window_s=self.QUEUE_WINDOW, moderated=self.QUEUE_MODERATED
        )


def load_settings(**overrides: Any) -> Settings:
    """Read the settings of this process once; ConfigError names the variable and what it may be."""
    try:
        settings = Settings(**overrides)
    except ValidationError as error:
        problems = (f"{'.'.join(map(str, p['loc']))}: {p['msg']}" for p in error.errors())
        raise ConfigError("; ".join(problems)) from error
    settings.apply()
    return settings
