"""The image and the compose file, as far as they can be checked without a container."""

from __future__ import annotations

import asyncio
import configparser
import os
import re
import subprocess
import sys
import time
import tomllib
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import yaml
from redis import AuthenticationError, Redis

from crawlstream import __version__
from crawlstream.boot import health
from crawlstream.boot.health import Health
from crawlstream.boot.settings import Settings
from crawlstream_chaos.processes import Program
from crawlstream_cli.local.ports import free_block
from crawlstream_cli.local.probes import redis_answers
from crawlstream_cli.verbs import VERBS
from crawlstream_extract.work import LIMITS
from rest_service.http.gate import BODIES_BYTES
from rest_service.http.idempotency import REMEMBERED_BYTES
from rest_service.service import MAX_PAGES
from rest_service.topics.key_checks import WAITING_BYTES
from rest_service.topics.replies import KEPT_BYTES
from rest_service.v2.reading import PAGE_BYTES
from support.variables import DOCKER, ROOT, load_yaml, variables

COMPOSE = load_yaml(DOCKER / "compose.yaml")
SERVICES: dict[str, Any] = COMPOSE["services"]
OURS = {name for name, service in SERVICES.items() if "build" in service}
ENTRYPOINT = (DOCKER / "entrypoint.sh").read_text()
PROCESSES = dict(
    re.findall(r"^ +([a-z-]+)\) shift && exec python -P -m ([\w.]+)", ENTRYPOINT, re.MULTILINE)
)


def default_of(value: str) -> str:
    """Replace ``${NAME:-default}`` as compose does."""
    return re.sub(r"\$\{\w+:-(.*?)\}", r"\1", value)


def test_our_services_are_named_as_we_are() -> None:
    """Every kind of process is there, and one to run commands in."""
    processes = {"kafka-monitor", "redis-monitor", "crawler", "wanderer", "rest", "pipeline"}
    assert processes | {"crawlstream", "renderer"} == OURS


@pytest.mark.parametrize("name", sorted(OURS))
def test_every_variable_is_a_setting(name: str) -> None:
    """A misspelt variable would be ignored without a word."""
    assert set(SERVICES[name]["environment"]) <= variables()


@pytest.mark.parametrize("name", sorted(OURS))
def test_every_command_is_one(name: str) -> None:
    """The first word is a process of the entrypoint, or a verb or option of `crawlstream`."""
    word = SERVICES[name]["command"][0]
    assert word in PROCESSES or word in VERBS or word == "--help"


def test_the_entrypoint_names_modules_that_are_there() -> None:
    """Each process is a module that can be run."""
    assert set(PROCESSES) >= {"kafka-monitor", "redis-monitor", "crawler", "rest", "pipelines"}
    for module in PROCESSES.values():
        assert find_spec(f"{module}.__main__")


def test_no_process_is_killed_before_its_time() -> None:
    """A container is given as long to end as supervisor gives the process on one machine."""
    supervisor = configparser.RawConfigParser()
    supervisor.read(ROOT / "supervisord.conf")
    for section in supervisor.sections():
        service = SERVICES.get(section.removeprefix("program:"))
        assert section != "crawler" or service
        if service:
            given = int(service["stop_grace_period"].removesuffix("s"))
            assert given >= supervisor.getint(section, "stopwaitsecs"), section


def test_a_crawler_drains_before_its_container_is_full() -> None:
    """The kernel's limit lies well above the one at which a crawler makes room for another."""
    limit = int(SERVICES["crawler"]["mem_limit"].removesuffix("m"))
    assert limit >= 1.25 * Settings.model_fields["memory_limit_mb"].default


def test_the_bounds_of_rest_fit_its_container() -> None:
    """REST and its workers are never ended by the kernel, if each bound is reached at a time."""
    bounds = (
        *(BODIES_BYTES, REMEMBERED_BYTES, KEPT_BYTES, MAX_PAGES * PAGE_BYTES),
        # URLs of announcements, and their events when a key is right.
        2 * WAITING_BYTES,
        # The record of a page and its answer; test_scrape_memory measures it.
        2 * Settings.model_fields["scrape_bytes"].default,
        LIMITS.workers * LIMITS.memory_mb << 20,
    )
    process_and_fetched = (80 + 100) << 20
    limit = int(SERVICES["rest"]["mem_limit"].removesuffix("m"))
    assert process_and_fetched + sum(bounds) < 0.95 * (limit << 20)
    chart = load_yaml(DOCKER / "helm" / "crawlstream" / "values.yaml")
    assert chart["rest"]["resources"]["limits"]["memory"] == f"{limit}Mi"


def test_containers_have_no_rights() -> None:
    """Processes of crawlstream write to their home only and can gain no rights."""
    for name in OURS:
        service = SERVICES[name]
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        # The sandbox of a browser needs what Docker's own profile forbids.
        more = ["seccomp=unconfined"] if name == "renderer" else []
        assert service["security_opt"] == ["no-new-privileges:true", *more]
    assert re.search(r"^USER 10001", (DOCKER / "Dockerfile").read_text(), re.MULTILINE)


def test_nothing_is_published_beyond_this_machine() -> None:
    """Published ports are on loopback; Redis and ZooKeeper publish none."""
    published = [port for service in SERVICES.values() for port in service.get("ports", ())]
    assert published
    assert all(port.startswith("127.0.0.1:") for port in published)


def test_the_servers_are_those_that_the_tests_run_on() -> None:
    """Kafka and ZooKeeper have the versions of docker/pom.xml."""
    pom = (DOCKER / "pom.xml").read_text()
    for name in ("kafka", "zookeeper"):
        version = re.search(rf"<{name}.version>(.*)</", pom)
        assert version
        assert default_of(SERVICES[name]["image"]).endswith(f":{version[1]}")


def test_redis_loses_and_evicts_nothing() -> None:
    """The frontier lives there."""
    command = default_of(" ".join(SERVICES["redis"]["command"]))
    assert "--appendonly yes" in command
    assert "--appendfsync everysec" in command
    assert "--maxmemory-policy noeviction" in command


def test_kafka_takes_records_as_large_as_ours() -> None:
    """The broker's limit is the one that topics are created for."""
    limit = Settings.model_fields["max_record_bytes"].default
    assert SERVICES["kafka"]["environment"]["KAFKA_MESSAGE_MAX_BYTES"] >= limit


def copied_by(text: str) -> set[str]:
    """Paths that a Dockerfile copies from the repository."""
    lines = re.findall(r"^COPY (?!--from)(.*)$", text, re.MULTILINE)
    return {word for line in lines for word in line.split()[:-1]}


def passed_to_builders() -> list[str]:
    """Paths that .dockerignore sends to the builder."""
    ignore = (ROOT / ".dockerignore").read_text().splitlines()
    return [line.removeprefix("!") for line in ignore if line.startswith("!")]


@pytest.mark.parametrize("name", ["Dockerfile", "servers/Dockerfile"])
def test_what_a_builder_copies_is_there(name: str) -> None:
    """It exists and passes .dockerignore."""
    for path in copied_by((DOCKER / name).read_text()):
        assert (ROOT / path).exists(), path
        rules = passed_to_builders()
        assert any(path == rule or path.startswith(f"{rule}/") for rule in rules), path


@pytest.mark.parametrize("name", ["Dockerfile", "servers/Dockerfile"])
def test_no_image_keeps_the_packages_it_has_installed(name: str) -> None:
    """Removes downloads in the instruction that installs, whatever the base does."""
    text = re.sub(r"\\\n", "", (DOCKER / name).read_text())
    final = text.partition(" AS base\n")[2] or text
    installs = re.findall(r"^RUN .*apt-get install.*$", final, re.MULTILINE)
    assert installs
    for step in installs:
        assert re.search(r"rm -rf /var/lib/apt/lists/\* /var/cache/apt/\*( |$)", step)


def test_builders_are_sent_no_more_than_they_need() -> None:
    """Each line of .dockerignore that lets something pass is one that exists and is copied."""
    images = (DOCKER / "Dockerfile", DOCKER / "servers" / "Dockerfile")
    copied = set().union(*(copied_by(path.read_text()) for path in images))
    for rule in passed_to_builders():
        assert any(path == rule or path.startswith(f"{rule}/") for path in copied), rule


def test_the_image_holds_every_package() -> None:
    """Each folder of the wheel, and the version that its label says."""
    text = (DOCKER / "Dockerfile").read_text()
    built = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]
    packages = {path.partition("/")[0] for path in built["targets"]["wheel"]["packages"]}
    assert packages <= copied_by(text)
    assert f"ARG VERSION={__version__}\n" in text


@pytest.mark.parametrize(
    ("said", "asked", "is_well"),
    [
        (Health(), (), True),
        (Health(waiting_for="Kafka"), (), True),
        (Health(waiting_for="Kafka"), ("ready",), False),
        (Health(alive=False), (), False),
    ],
)
async def test_the_healthcheck_asks_the_process(
    said: Health, asked: tuple[str, ...], *, is_well: bool
) -> None:
    """A container is ill when its process says so; one that waits is well."""
    port = free_block(1)
    async with health.serve(port, lambda: said):
        assert await _check(port, *asked) is is_well


async def test_a_process_that_does_not_answer_is_ill() -> None:
    """Reports a process as unhealthy if nothing listens."""
    assert not await _check(free_block(1))


async def _check(port: int, *asked: str) -> bool:
    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-IS", str(DOCKER / "healthcheck.py"), *asked],
        env={"CRAWLSTREAM_METRICS_PORT": str(port)},
        capture_output=True,
        check=False,
    )
    return done.returncode == 0


def test_redis_hides_its_password(tmp_path: Path) -> None:
    """The container's own command, run here: clients need the password, `ps` shows none."""
    service, port = SERVICES["redis"], free_block(1)
    argv = [default_of(word).replace("$$", "$") for word in service["command"]]
    settings = ("--port", str(port), "--bind", "127.0.0.1", "--dir", str(tmp_path))
    argv[2] = argv[2].replace("/tmp/", f"{tmp_path}/")  # noqa: S108  its own
    argv[-1] = "64mb"
    environment = {**os.environ, "REDIS_PASSWORD": "s3cret"}
    server = Program(*argv, *settings, env=environment, log=tmp_path / "log")
    with server.running():
        deadline = time.monotonic() + 20
        while not redis_answers(port, password="s3cret"):
            assert server.is_running(), server.logged()
            assert time.monotonic() < deadline, server.logged()
            time.sleep(0.05)
        with Redis(port=port) as stranger, pytest.raises(AuthenticationError):
            stranger.ping()
        with Redis(port=port, password="s3cret") as redis:
            config = redis.config_get("*")
            assert (config["appendonly"], config["save"]) == ("yes", "")
            assert config["maxmemory-policy"] == "noeviction"
    assert (tmp_path / "redis.conf").stat().st_mode & 0o777 == 0o600
    assert "s3cret" not in " ".join(argv)


def test_the_documented_service_of_ones_own_spider_is_a_crawler() -> None:
    """Six lines in another file than compose.yaml: it extends a service, and names a spider."""
    text = (ROOT / "docs" / "spiders.md").read_text()
    (block,) = re.findall(r"```yaml\n(services:\n.*?)```", text, re.DOTALL)
    assert len(block.splitlines()) == 6
    ((name, service),) = yaml.safe_load(block)["services"].items()
    assert name not in SERVICES
    assert service["extends"] == {"file": "compose.yaml", "service": "crawler"}
    assert service["command"][0] == SERVICES["crawler"]["command"][0]
    # Its build inherits keys that it does not name; a Dockerfile ignores unknown arguments.
    assert set(service["build"]) == set(SERVICES["crawler"]["build"]) - {"args"}


def test_stores_are_out_of_reach() -> None:
    """Redis and ZooKeeper are in a network that nothing leads into; all servers gave up rights."""
    assert COMPOSE["networks"]["stores"] == {"internal": True}
    for name in ("redis", "zookeeper", "kafka"):
        assert SERVICES[name]["cap_drop"] == ["ALL"]
        assert "stores" in SERVICES[name]["networks"]
    for name in ("redis", "zookeeper", "kafka-monitor", "redis-monitor"):
        assert SERVICES[name]["networks"] == ["stores"]
        assert "ports" not in SERVICES[name]
