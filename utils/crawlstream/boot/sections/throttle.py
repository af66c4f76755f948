"""Settings of the throttle: where its rules are, the first of them, and whom limits are for."""

from __future__ import annotations

import re
from typing import Self

from pydantic import Field, model_validator

from crawlstream.boot.sections.section import Hosts, Section, check_addresses, new
from crawlstream.model.throttle_table import ThrottleRule

_NO_PATH = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\uffff]")
"""Characters that ZooKeeper takes in no path."""


def _check_path(name: str, path: str) -> None:
    """ValueError if ZooKeeper would refuse a node of this path."""
    if _NO_PATH.search(path) or not {".", ".."}.isdisjoint(path.split("/")):
        raise ValueError(f"{name}: {path!r} is not a path of ZooKeeper")


class ZooKeeperSettings(Section):
    """ZooKeeper: the throttle rules and the proxy pools."""

    zookeeper_hosts: Hosts = ("localhost:2181",)
    """ZooKeeper servers, as comma-separated ``host:port``."""
    zookeeper_assign_path: str = "/scrapy-cluster/crawler/"
    """Parent path of the ZooKeeper nodes that store the throttle rules and the proxy pools."""
    zookeeper_id: str = "all"
    """Name of the node that stores the rules; that of the pools is `<name>-proxies`."""

    @model_validator(mode="after")
    def _check_servers_of_rules(self) -> Self:
        if not self.zookeeper_hosts:
            raise ValueError("ZOOKEEPER_HOSTS: name at least one server, as host:port")
        *others, last = self.zookeeper_hosts
        last, _, root = last.partition("/")
        check_addresses("ZOOKEEPER_HOSTS", [*others, last], default_port=2181)
        _check_path("ZOOKEEPER_HOSTS", root)
        _check_path("ZOOKEEPER_ASSIGN_PATH", self.zookeeper_assign_path)
        _check_path("ZOOKEEPER_ID", self.zookeeper_id)
        return self

    @property
    def throttle_path(self) -> str:
        """The ZooKeeper node that holds the rules."""
        return f"/{self.zookeeper_assign_path.strip('/')}/{self.zookeeper_id.strip('/')}"

    @property
    def proxies_path(self) -> str:
        """The ZooKeeper node that holds the proxy pools."""
        return f"{self.throttle_path}-proxies"


class DefaultRuleSettings(Section):
    """The default rule: only the initial value of the node's ``default``; change it there."""

    queue_hits: int = Field(10, ge=0)
    """Maximum number of requests per window and domain; 0 blocks."""
    queue_window: float = Field(60, gt=0)
    """Length of the window, in seconds."""
    queue_moderated: bool = True
    """Space requests evenly over the window instead of sending them in bursts."""

    @property
    def default_rule(self) -> ThrottleRule:
        """The rule for domains without one, while the node has no ``default``."""
        return ThrottleRule(
            hits=self.queue_hits, window_s=self.queue_window, moderated=self.queue_moderated
        )


class ScopeSettings(Section):
    """Scope of rate limits: must be the same in every process of a cluster."""

    scheduler_type_enabled: bool = False
    """Keep separate limits for each spider type. A site then receives the sum of their rates."""
    scheduler_ip_enabled: bool = False
    """Keep separate limits for each egress group (crawlers that share a public IP address or
    pool)."""
    egress_group: str = Field(
        "", validation_alias=new("EGRESS_GROUP"), pattern=r"^[A-Za-z0-9._-]{0,64}$"
    )
    """Name of the egress group of this crawler: crawlers that share a public IP address or pool."""

    @property
    def throttle_scope(self) -> str:
        """Scopes that limits have besides the domain, in the frontier's words."""
        words = {"type": self.scheduler_type_enabled, "group": self.scheduler_ip_enabled}
        return " ".join(word for word, is_enabled in words.items() if is_enabled)
