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
    """Scope of rate limits: must be the same in every process of a cluster."""

    SCHEDULER_TYPE_ENABLED: bool = False
    """Keep separate limits for each spider type. A site then receives the sum of their rates."""
    SCHEDULER_IP_ENABLED: bool = False
    """Keep separate limits for each egress group (crawlers that share a public IP address or
    pool)."""
    egress_group: str = Field(
        "", validation_alias=new("EGRESS_GROUP"), pattern=r"^[A-Za-z0-9._-]{0,64}$"
    )
    """Name of the egress group of this crawler: crawlers that share a public IP address or pool."""

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

    # Redis: stores the frontier.
    REDIS_HOST: str = "localhost"
    """Host name or IP address of Redis."""
    REDIS_PORT: int = Field(6379, ge=1, le=65535)
    """Port of Redis."""
    REDIS_DB: int = Field(0, ge=0)
    """Redis database number."""
    REDIS_SOCKET_TIMEOUT: float = Field(10, gt=0)
    """Timeout of one Redis call, in seconds."""
    namespace: str = Field("cs", validation_alias=new("NAMESPACE"), pattern=r"^[a-z][a-z0-9_]*$")
    """Prefix of every Redis key. Clusters with different prefixes can share one Redis."""

    # Kafka: incoming requests and outgoing records.
    KAFKA_HOSTS: Hosts = ("localhost:9092",)
    """Bootstrap brokers, as comma-separated ``host:port``."""
    KAFKA_TOPIC_PREFIX: str = "demo"
    """Prefix of every topic name."""
    KAFKA_INCOMING_TOPIC: str | None = None
    """Topic of incoming requests; default: ``<KAFKA_TOPIC_PREFIX>.incoming``."""
    KAFKA_GROUP: str = "demo-group"
    """Consumer group of the kafka-monitors."""
    KAFKA_APPID_TOPICS: bool = False
    """Also send each outgoing record to a topic per appid."""
    KAFKA_FEED_TIMEOUT: float = Field(10, gt=0)
    """Seconds that a producer waits for Kafka's acknowledgement before it reports an error."""
    KAFKA_COMPRESSION: Codec = "gzip"
    """Compression codec of produced records. Every Kafka client reads `gzip` and `none`; `lz4`,
    `zstd` and `snappy` use less CPU, but some clients need an extra package to read them."""
    KAFKA_BASE_64_ENCODE: bool = False
    """Encode every body as base64, text bodies included."""
    incoming_partitions: int = Field(4, validation_alias=new("INCOMING_PARTITIONS"), ge=1)
    """Number of partitions of newly created topics; existing topics are not changed."""
    replication: int = Field(1, validation_alias=new("REPLICATION"), ge=1)
    """Replication factor of newly created topics."""
    max_record_bytes: int = Field(
        8 * 1024 * 1024, validation_alias=new("MAX_RECORD_BYTES"), ge=1024 * 1024
    )
    """``max.message.bytes`` of newly created topics."""
    max_topics: int = Field(1_000, validation_alias=new("MAX_TOPICS"), ge=10)
    """Maximum number of topics with this prefix. When it is reached, no more topics are created for
    single appids."""

    # ZooKeeper: the throttle rules.
    ZOOKEEPER_HOSTS: Hosts = ("localhost:2181",)
    """ZooKeeper servers, as comma-separated ``host:port``."""
    ZOOKEEPER_ASSIGN_PATH: str = "/scrapy-cluster/crawler/"
    """Parent path of the ZooKeeper node that stores the throttle rules."""
    ZOOKEEPER_ID: str = "all"
    """Name of that node."""

    # The default rule: only the initial value of the node's ``default``; change it there.
    QUEUE_HITS: int = Field(10, ge=0)
    """Maximum number of requests per window and domain; 0 blocks."""
    QUEUE_WINDOW: float = Field(60, gt=0)
    """Length of the window, in seconds."""
    QUEUE_MODERATED: bool = True
    """Space requests evenly over the window instead of sending them in bursts."""

    # Crawling.
    DUPEFILTER_TIMEOUT: int = Field(600, ge=0)
    """Seconds to keep a crawl's dedupe set after its last run has ended."""
    RETRY_TIMES: int = Field(3, ge=0, le=20)
    """Number of retries after the first attempt at a page."""
    DOWNLOAD_TIMEOUT: float = Field(10, gt=0)
    """Timeout of one download, in seconds."""
    DOWNLOAD_VERIFY_CERTIFICATES: bool | None = None
    """Verify the TLS certificates of sites. Default: only for requests that carry cookies, custom
    headers or a body."""
    ROBOTSTXT_OBEY: bool = True
    """Obey robots.txt."""
    SCHEDULER_BACKLOG_BLACKLIST: bool = True
    """Queue links to blocked domains until the domain is unblocked. If false, such links are
    filtered."""
    METAREFRESH_ENABLED: bool = True
    """Follow meta refreshes as redirects, as Scrapy does."""
    METAREFRESH_MAXDELAY: float = Field(100, ge=0)
    """Follow a meta refresh only if its delay is at most this many seconds."""
    USER_AGENT: str = "crawlstream/0.1 (+https://example.com/set-USER_AGENT-to-a-contact-page)"
    """User-Agent header sent to sites; include the URL of your contact page."""
    CONCURRENT_REQUESTS: int = Field(64, ge=1, le=1000)
    """Maximum number of concurrent downloads per crawler process. Slow downloads are counted
    separately: up to three times as many again."""
    max_depth: int = Field(
        100, validation_alias=AliasChoices("CRAWLSTREAM_MAX_DEPTH", "MAX_DEPTH"), ge=0, le=300
    )
    """Largest ``maxdepth`` that a request may set."""
    max_attrs_bytes: int = Field(65_536, validation_alias=new("MAX_ATTRS_BYTES"), ge=2)
    """Maximum size of a request's ``attrs``, in bytes; every page and result of the crawl carries
    them."""
    allow_ignore_robots: bool = Field(default=False, validation_alias=new("ALLOW_IGNORE_ROBOTS"))
    """Allow requests to set ``"obey_robots": false``."""
    allow_networks: Annotated[tuple[Network, ...], NoDecode, BeforeValidator(_networks)] = Field(
        (), validation_alias=new("ALLOW_NETWORKS")
    )
    """Internal address ranges (CIDR, comma-separated) that may be crawled. This allows every port,
    every client and links from every page."""
    deny_networks: Annotated[tuple[Network, ...], NoDecode, BeforeValidator(_networks)] = Field(
        (), validation_alias=new("DENY_NETWORKS")
    )
    """Address ranges (CIDR, comma-separated) that crawlers never connect to, even if they are
    allowed elsewhere."""
    finish_grace: float = Field(
        3, validation_alias=AliasChoices("CRAWLSTREAM_FINISH_GRACE", "FINISH_GRACE"), ge=0
    )
    """Seconds that a crawl must be idle before it is marked as finished."""
    max_wait: float = Field(
        86_400, validation_alias=AliasChoices("CRAWLSTREAM_MAX_WAIT", "MAX_WAIT"), ge=0
    )
    """Fail a run's waiting pages (reason `no_worker` or `domain_unreachable`) after this many
    seconds without progress; 0 disables."""
    max_queued_crawl: int = Field(0, validation_alias=new("MAX_QUEUED_CRAWL"), ge=0)
    """Maximum number of waiting pages per crawl. Above it, links are filtered and seeds are
    rejected; 0: unlimited."""
    max_queued: int = Field(0, validation_alias=new("MAX_QUEUED"), ge=0)
    """Maximum number of waiting pages in all crawls together; 0: unlimited."""
    max_body_bytes: int = Field(4 * 1024 * 1024, validation_alias=new("MAX_BODY_BYTES"), ge=1024)
    """Maximum size of a body in its result record, in bytes; longer bodies are truncated."""
    body_store: str | None = Field(None, validation_alias=new("BODY_STORE"))
    """Storage URL for the full bodies of truncated results (``file:///…``, ``s3://…``)."""
    download_max_bytes: int = Field(
        16 * 1024 * 1024,
        validation_alias=AliasChoices("CRAWLSTREAM_DOWNLOAD_MAX_BYTES", "DOWNLOAD_MAXSIZE"),
        ge=1024,
    )
    """Maximum size of a decompressed response, in bytes; larger ones fail with reason
    ``too_large``."""
    memory_limit_mb: int = Field(
        1024,
        validation_alias=AliasChoices("CRAWLSTREAM_MEMORY_LIMIT_MB", "MEMUSAGE_LIMIT_MB"),
        ge=0,
    )
    """Memory limit of a crawler process, in MiB. Above it, the process drains and exits with 0, so
    that its supervisor restarts it. Set it below the container's limit; 0 disables."""
    max_age_s: float = Field(24 * 3600, validation_alias=new("MAX_AGE"), ge=0)
    """Maximum lifetime of a crawler process, in seconds; after about that time it drains and exits
    as above. 0 disables."""
    notice: str = Field(
        "",
        validation_alias=new("NOTICE"),
        pattern=r"^(aws|gcp|azure|file:.+|[A-Za-z_]\w*(\.[A-Za-z_]\w*)+)?$",
    )
    """Source of termination notices for the crawler's machine: aws, gcp, azure, file:PATH, or a
    function package.module.name. On a notice the crawler drains, as on SIGTERM. Empty disables."""
    notice_s: float = Field(0, validation_alias=new("NOTICE_S"), ge=0)
    """Seconds between a termination notice and the termination; unfinished pages are released
    before. 0: the cloud provider's value (aws 120, others 30)."""
    notice_url: str = Field(
        "http://169.254.169.254", validation_alias=new("NOTICE_URL"), pattern=r"^http://[^/@]+$"
    )
    """Base URL of the cloud's instance metadata service."""
    max_path_segments: int = Field(20, validation_alias=new("MAX_PATH_SEGMENTS"), ge=0)
    """Maximum number of path segments of a followed link; others are filtered (``path_depth``). 0:
    unlimited."""
    max_path_repeats: int = Field(3, validation_alias=new("MAX_PATH_REPEATS"), ge=0)
    """Maximum number of occurrences of one segment in a link's path; links above that are filtered
    (``path_repeats``)."""

    # REST API.
    rest_host: str = Field("127.0.0.1", validation_alias=new("REST_HOST"))
    """Address that REST listens on. Addresses other than loopback need ``CRAWLSTREAM_API_KEYS``."""
    rest_port: int = Field(
        5343, validation_alias=AliasChoices("CRAWLSTREAM_REST_PORT", "FLASK_PORT"), ge=1, le=65535
    )
    """Port that REST listens on."""
    api_keys: Annotated[tuple[ApiKey, ...], NoDecode, BeforeValidator(read_keys)] = Field(
        (), validation_alias=new("API_KEYS"), repr=False
    )
    """API keys, comma-separated ``role:secret``. To limit a key to applications and quotas:
    ``role@appid+appid/name=…/rate=…/waiting=…:secret``. Empty: every client that reaches REST has
    all rights."""
    rest_max_body_bytes: int = Field(
        16 * 1024 * 1024, validation_alias=new("REST_MAX_BODY_BYTES"), ge=1024
    )
    """Maximum size of an HTTP request body, in bytes."""
    rest_rate: float = Field(2000, validation_alias=new("REST_RATE"), ge=0)
    """Maximum rate of HTTP requests per second and client; bursts of twice as many are allowed. 0:
    unlimited."""
    rest_peer_connections: int = Field(500, validation_alias=new("REST_PEER_CONNECTIONS"), ge=1)
    """Maximum number of connections per client address. Raise it if REST is behind a proxy that
    opens more."""
    WAIT_FOR_RESPONSE_TIME: float = Field(5, gt=0)
    """Seconds that REST waits for the cluster's reply before it answers with a ``poll_id``."""

    # Logs, metrics and files.
    LOG_LEVEL: Annotated[
        Literal["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"], BeforeValidator(_upper_case)
    ] = "INFO"
    """Minimum level of log messages."""
    LOG_JSON: bool | None = None
    """Log as JSON lines; default: yes, unless standard error is a terminal."""
    metrics_base: int = Field(0, validation_alias=new("METRICS_PORT"), ge=0, le=65535)
    """First port of the health and metrics endpoints on this machine; 0 disables them."""
    metrics_host: str = Field("127.0.0.1", validation_alias=new("METRICS_HOST"))
    """Address of these endpoints. They need no authentication."""
    metrics_offset: int = Field(0, validation_alias=new("METRICS_OFFSET"), ge=0)
    """Offset of this process's port from the first one."""
    home: str = Field(".crawlstream", validation_alias=new("HOME"))
    """Directory for data, logs, jars and results of a local cluster."""

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
