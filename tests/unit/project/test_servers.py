"""Images of Kafka, ZooKeeper and Redis that are built here, as far as no container is needed."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from crawlstream_chaos.processes import Program
from crawlstream_cli.local.home import find_jars
from crawlstream_cli.local.ports import free_block
from crawlstream_cli.local.probes import PROBES
from support.variables import DOCKER, load_yaml
from support.waiting import WaitUntil

BASE: dict[str, Any] = load_yaml(DOCKER / "compose.yaml")["services"]
OVER: dict[str, Any] = load_yaml(DOCKER / "compose.servers.yaml")["services"]
IMAGES = (DOCKER / "servers" / "Dockerfile").read_text()


def default_of(value: object) -> str:
    """The text that compose inserts for ``${NAME:-default}``."""
    return re.sub(r"\$\{\w+:-(.*?)\}", r"\1", str(value))


def test_every_server_is_a_target() -> None:
    """Each image that compose.yaml takes from a registry can be built, and nothing else."""
    assert set(OVER) == {name for name, each in BASE.items() if "build" not in each}
    for name, service in OVER.items():
        assert service["build"]["target"] == name
        assert re.search(rf"^FROM \S+ AS {name}$", IMAGES, re.MULTILINE)


def test_the_base_is_named_in_one_way() -> None:
    """The default base of compose is the default of the Dockerfile."""
    ours = (DOCKER / "Dockerfile").read_text()
    for text, services in ((ours, BASE), (IMAGES, OVER)):
        (base,) = re.findall(r"^ARG BASE=(.*)$", text, re.MULTILINE)
        builds = [each["build"] for each in services.values() if "build" in each]
        assert {each["args"]["BASE"] for each in builds} == {f"${{CRAWLSTREAM_BASE:-{base}}}"}


def test_volumes_are_where_the_official_images_have_them() -> None:
    """Each volume of a service is one of its image as well, and its user may write to it."""
    for name in OVER:
        stage = IMAGES.partition(f" AS {name}\n")[2].partition("\nFROM")[0]
        declared = re.findall(r"^VOLUME (.*)$", stage, re.MULTILINE)
        kept = {volume.partition(":")[2] for volume in BASE[name]["volumes"]}
        assert set(" ".join(declared).split()) == kept
        assert all(re.search(rf"install -d -o \w+ .*{folder}", stage) for folder in kept)


def environment_of(name: str, **changed: str) -> Mapping[str, str]:
    """The environment that compose gives a server."""
    given = {key: default_of(value) for key, value in BASE[name]["environment"].items()}
    return {**os.environ, **given, **changed}


@pytest.mark.parametrize("name", ["kafka", "zookeeper"])
async def test_a_server_starts_with_what_compose_gives_it(
    tmp_path: Path, wait_until: WaitUntil, name: str
) -> None:
    """The image's own script, run here twice: it answers, and finds its data again."""
    port, data = free_block(2), tmp_path / "data"
    text = (DOCKER / "servers" / f"{name}.sh").read_text()
    for there, here in (
        ("/opt/jars", str(find_jars())),
        ("=/tmp/", f"={tmp_path}/"),
        ("=/data", f"={data}/"),
        ("clientPort=2181", f"clientPort={port}\nclientPortAddress=127.0.0.1"),
    ):
        text = text.replace(there, here)
    script = tmp_path / "start"
    script.write_text(text)
    here = f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{port + 1}"
    listeners = {
        "KAFKA_LISTENERS": here,
        "KAFKA_ADVERTISED_LISTENERS": here.partition(",")[0],
        "KAFKA_CONTROLLER_QUORUM_VOTERS": f"1@127.0.0.1:{port + 1}",
        "KAFKA_LOG_DIRS": str(data),
    }
    # Java's second compiler pays in long lives only.
    heap = "-Xmx512m -XX:TieredStopAtLevel=1"
    changed = {**listeners, "KAFKA_HEAP_OPTS": heap} if name == "kafka" else {"JVMFLAGS": heap}
    environment = environment_of(name, **changed)
    server = Program("bash", str(script), env=environment, log=tmp_path / "log")
    for _ in range(2):
        with server.running():
            await wait_until(lambda: PROBES[name](port) or not server.is_running())
            assert PROBES[name](port), server.logged()
    kept = {path.name for path in data.rglob("*")}
    assert kept & {"meta.properties", "version-2"}
    if name == "kafka":
        properties = (tmp_path / "kafka.properties").read_text()
        assert "\nmessage.max.bytes=8388608\n" in f"\n{properties}"
        assert "TieredStop" not in properties
