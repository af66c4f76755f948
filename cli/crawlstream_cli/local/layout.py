"""Parts of a cluster on one machine, before any of them runs.

A server that the environment names (KAFKA_HOSTS, ZOOKEEPER_HOSTS, REDIS_HOST) is used where it is;
the others are started here, on 127.0.0.1. Each partition of a frontier has a Redis.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from crawlstream.boot.settings import Settings
from crawlstream.errors import ConfigError, SetupError
from crawlstream_cli.local.crawlers import (
    LocalCrawler,
    crawlers_of,
    include_pattern,
    note_crawlers,
    note_targets,
)
from crawlstream_cli.local.home import Home
from crawlstream_cli.local.partitions import redis_names
from crawlstream_cli.local.ports import OFFSETS, Ports, is_listened_on, offset_of_pipeline, taken
from crawlstream_cli.local.probes import condition

_NAMED_BY = {"kafka": "KAFKA_HOSTS", "zookeeper": "ZOOKEEPER_HOSTS", "redis": "REDIS_HOST"}
_PROGRAMS = {"kafka": "java", "zookeeper": "java", "redis": "redis-server"}

_SEVERAL = ("REDIS_HOSTS", "REDIS_CLUSTER")
"""Variables that name the Redis servers of a frontier with several partitions."""

_NAMES = (
    *("KAFKA_TOPIC_PREFIX", "REDIS_DB", "CRAWLSTREAM_NAMESPACE"),
    "CRAWLSTREAM_PARTITIONS",
)

_Listener = tuple[str, str]
"""Name of the server that listens on a port, and the variable that changes the port."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalLayout:
    """A home, its ports, its crawlers, and the variables that the user has given."""

    home: Home
    ports: Ports
    given: Mapping[str, str]
    crawlers: Sequence[LocalCrawler] = ()
    """Crawlers to start."""
    pipelines: Path | None = None
    """The file of the pipelines; None: none are run."""
    pipeline_processes: int = 1
    """How many run them, if there is such a file."""
    partitions: int = 1
    """Number of partitions of a frontier whose Redis are started here."""

    @property
    def local(self) -> frozenset[str]:
        """The servers that are started here."""
        elsewhere = {name for name, variable in _NAMED_BY.items() if self.given.get(variable)}
        if any(self.given.get(name) for name in _SEVERAL):
            elsewhere.add("redis")
        return frozenset(_NAMED_BY.keys() - elsewhere)

    @property
    def redis(self) -> Mapping[str, int]:
        """The port of each Redis that is started here, by its name; the n-th has partition n."""
        names = redis_names(self.partitions) if "redis" in self.local else []
        return {name: self.ports.redis + number for number, name in enumerate(names)}

    def environment(self) -> dict[str, str]:
        """Every variable that the cluster's processes, and its clients, are started with."""
        return {**self.given, **self.addresses(), **self.secrets(), **self._for_supervisor()}

    def secrets(self) -> dict[str, str]:
        """Variables that authenticate a client; they are never shown."""
        password = self.redis_password
        return {"REDIS_PASSWORD": password} if password else {}

    @property
    def redis_password(self) -> str | None:
        """Password of the Redis that is started here: the user's, else a generated one."""
        return self._own_password if "redis" in self.local else None

    @property
    def _own_password(self) -> str | None:
        return self.given.get("REDIS_PASSWORD") or self.home.redis_password

    def addresses(self) -> dict[str, str]:
        """The variables that lead a client to this cluster."""
        found = {"CRAWLSTREAM_HOME": str(self.home.path), **self.ports.variables()}
        if "kafka" in self.local:
            found["KAFKA_HOSTS"] = f"127.0.0.1:{self.ports.kafka}"
        if "zookeeper" in self.local:
            found["ZOOKEEPER_HOSTS"] = f"127.0.0.1:{self.ports.zookeeper}"
        if "redis" in self.local:
            found |= self._redis_addresses()
        names = (*_NAMED_BY.values(), "REDIS_PORT", *_SEVERAL)
        if self.pipelines is not None:
            found["CRAWLSTREAM_PIPELINES"] = str(self.pipelines)
        return {name: self.given[name] for name in names if name in self.given} | found

    def _redis_addresses(self) -> dict[str, str]:
        if self.partitions == 1:
            return {"REDIS_HOST": "127.0.0.1", "REDIS_PORT": str(self.ports.redis)}
        servers = ",".join(f"127.0.0.1:{port}" for port in self.redis.values())
        number = str(self.partitions)
        return {"REDIS_HOSTS": servers, "CRAWLSTREAM_PARTITIONS": number}

    def names(self) -> dict[str, str]:
        """Variables that separate this cluster's topics and keys from others'."""
        return {name: self.given[name] for name in _NAMES if name in self.given}

    def port_of(self, kind: str, name: str) -> int:
        """Return the port that the probe of a process calls; 0 for a crawler just removed."""
        if kind == "redis":
            return self.ports.redis + int(name.partition("-")[2] or 0)
        if kind in _NAMED_BY:
            return int(getattr(self.ports, kind))
        if kind in OFFSETS:
            return self.ports.metrics + OFFSETS[kind]
        if kind == "pipeline":
            return self.ports.metrics + offset_of_pipeline(name)
        offsets = {each.name: each.offset for each in crawlers_of(self.home)}
        return self.ports.metrics + offsets[name] if name in offsets else 0

    def condition_of(self, kind: str, name: str) -> str:
        """Return the condition of a process: see `probes.condition`.

        A Redis that is among the processes was started here, even if the caller's environment names
        it like any other.
        """
        return condition(kind, self.port_of(kind, name), self._own_password)

    def check_access(self, settings: Settings) -> None:
        """SetupError where the settings protect a server which, started here, is on loopback."""
        protected = {
            "redis": settings.redis_tls or settings.redis_username is not None,
            "zookeeper": settings.zookeeper_tls,
            "kafka": settings.kafka_security != "PLAINTEXT",
        }
        for name in sorted(self.local):
            if protected[name]:
                raise SetupError(
                    f"the settings contain credentials or TLS options for {name}, but a {name}"
                    " that is started here uses neither: name an external server with"
                    f" {_NAMED_BY[name]} or remove the options"
                )

    def check(self) -> None:
        """Raise SetupError or ConfigError for whatever would keep the cluster from starting."""
        for name in sorted(self.local):
            if shutil.which(_PROGRAMS[name], path=self._path()) is None:
                raise SetupError(
                    f"{_PROGRAMS[name]} is not installed, but {name} needs it: ./crawlstream up"
                    " installs it or says how; to use an external server instead, set"
                    f" {_NAMED_BY[name]}"
                )
        listeners = [*self._listeners(), *self._crawler_listeners().items()]
        _refuse_shared(listeners)
        _refuse_taken(dict(listeners))

    def check_crawlers(self) -> None:
        """Raise SetupError if the port of a crawler that is to be started is in use."""
        _refuse_taken(self._crawler_listeners())

    def _listeners(self) -> Iterator[tuple[int, _Listener]]:
        """Every port that will be listened on, those of the crawlers left out."""
        if "kafka" in self.local:
            yield self.ports.kafka, ("Kafka", "CRAWLSTREAM_KAFKA_PORT")
            yield self.ports.kafka + 1, ("Kafka's controller", "CRAWLSTREAM_KAFKA_PORT")
        if "zookeeper" in self.local:
            yield self.ports.zookeeper, ("ZooKeeper", "CRAWLSTREAM_ZOOKEEPER_PORT")
        for name, port in self.redis.items():
            yield port, (name.capitalize(), "CRAWLSTREAM_REDIS_PORT")
        yield self.ports.rest, ("REST", "CRAWLSTREAM_REST_PORT")
        for name, offset in OFFSETS.items():
            yield self.ports.metrics + offset, _metrics_of(name)
        for name in self._pipeline_names():
            yield self.ports.metrics + offset_of_pipeline(name), _metrics_of(name)

    def _pipeline_names(self) -> Sequence[str]:
        count = 0 if self.pipelines is None else self.pipeline_processes
        return [f"pipeline-{number + 1}" for number in range(count)]

    def note(self, crawlers: Sequence[LocalCrawler]) -> None:
        """Write down which crawlers there are, for supervisord and for Prometheus."""
        note_crawlers(self.home, crawlers)
        note_targets(self.home, (self.ports.metrics + each.offset for each in crawlers))

    def _crawler_listeners(self) -> Mapping[int, _Listener]:
        return {self.ports.metrics + each.offset: _metrics_of(each.name) for each in self.crawlers}

    def _for_supervisor(self) -> dict[str, str]:
        """Environment of supervisord: variables in supervisord.conf, and those for its programs."""
        counts = {
            f"CRAWLSTREAM_LOCAL_{name.upper()}": str(int(name in self.local)) for name in _NAMED_BY
        }
        several = len(self.redis) > 1
        return {
            **counts,
            "CRAWLSTREAM_LOCAL_REDIS": str(int("redis" in self.local and not several)),
            "CRAWLSTREAM_LOCAL_PARTITIONS": str(len(self.redis) if several else 0),
            "CRAWLSTREAM_SOCKET": str(self.home.socket),
            "CRAWLSTREAM_LOCAL_PIPELINE": str(len(self._pipeline_names())),
            "CRAWLSTREAM_CRAWLERS": include_pattern(self.home),
            "PATH": self._path(),
            # The home's folders must not pass for packages.
            "PYTHONSAFEPATH": "1",
        }

    def _path(self) -> str:
        """Return PATH, with the folder of this Python first and then the Java of JAVA_HOME."""
        folders = [Path(sys.executable).parent]
        if java_home := self.given.get("JAVA_HOME"):
            folders.append(Path(java_home) / "bin")
        return os.pathsep.join([*map(str, folders), self.given.get("PATH", os.defpath)])


def _metrics_of(name: str) -> _Listener:
    return f"{name}'s metrics", "CRAWLSTREAM_METRICS_PORT"


def _refuse_shared(listeners: Iterable[tuple[int, _Listener]]) -> None:
    """ConfigError naming two parts of the cluster that are to listen on one port."""
    found: dict[int, _Listener] = {}
    for port, (name, variable) in listeners:
        other, others_variable = found.setdefault(port, (name, variable))
        if other != name:
            remedy = " or ".join(dict.fromkeys((others_variable, variable)))
            raise ConfigError(
                f"port {port} is given to both {other} and {name}: choose other ports with {remedy}"
            )


def _refuse_taken(wanted: Mapping[int, _Listener]) -> None:
    """SetupError naming each port that is in use."""
    in_use = taken(wanted)
    if not in_use:
        return
    named = ", ".join(f"{port} ({wanted[port][0]})" for port in in_use)
    remedy = ", ".join(sorted({wanted[port][1] for port in in_use}))
    many = len(in_use) > 1
    why = (
        "stop the program that listens there"
        if any(map(is_listened_on, in_use))
        else "no program listens there, but a connection to elsewhere uses it, as happens above"
        " 32767: try again in a minute"
    )
    raise SetupError(
        f"{'ports' if many else 'port'} {named} {'are' if many else 'is'} already in use:"
        f" {why} or choose other ports with {remedy}"
    )
