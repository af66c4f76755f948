"""The Helm chart, as far as it can be checked without Helm; docker/check.sh does the rest."""

from __future__ import annotations

import configparser
import copy
import json
import re
from functools import reduce
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft7Validator

from crawlstream import __version__
from crawlstream.boot import addresses, health
from crawlstream.boot.health import Health
from crawlstream.keys import MOST_PARTITIONS
from crawlstream.model.egress.tls import PROFILES
from crawlstream.model.request import RequestLimits
from support.variables import DOCKER, ROOT, load_yaml, variables

CHART = DOCKER / "helm" / "crawlstream"
VALUES = load_yaml(CHART / "values.yaml")
SCHEMA = json.loads((CHART / "values.schema.json").read_text())
TEMPLATES = {path.name: path.read_text() for path in (CHART / "templates").iterdir()}
SETS = sorted((CHART / "ci").iterdir())


def merged(values: Any, over: Any) -> Any:
    """Merge two sets of values as Helm does; null removes a key."""
    if not (isinstance(values, dict) and isinstance(over, dict)):
        return copy.deepcopy(over)
    names = [name for name in values | over if over.get(name, "") is not None]
    return {
        name: merged(values.get(name), over[name]) if name in over else copy.deepcopy(values[name])
        for name in names
    }


def test_the_defaults_fit_their_schema() -> None:
    """Every value has its place in the schema, which knows no others."""
    Draft7Validator.check_schema(SCHEMA)
    assert not list(Draft7Validator(SCHEMA).iter_errors(VALUES))
    assert set(SCHEMA["$defs"]["pool"]["properties"]) == set(VALUES["crawlerDefaults"])


@pytest.mark.parametrize("path", SETS, ids=lambda path: path.stem)
def test_the_sets_of_values_fit_the_schema(path: Path) -> None:
    """Values that are rendered and checked against Kubernetes' schemas are valid here, too."""
    values = merged(VALUES, load_yaml(path))
    assert not list(Draft7Validator(SCHEMA).iter_errors(values))
    assert set(values["settings"]) | set(values["secretSettings"]) <= variables()


@pytest.mark.parametrize(
    "wrong",
    [
        {"crawlerDefaults": {"memory": "1Gi"}},
        {"crawlers": {"Spot": {}}},
        {"crawlers": {"spot": {"notice": "amazon"}}},
        {"crawlers": {"link": None}},
        {"spiders": {"Shop": 1}},
        {"spiders": {"shop": -1}},
        {"spiders": {"shop": "two"}},
        {"spiders": {"shop": {"spider": "link"}}},
        {"spiders": {"shop": {"replica": 2}}},
        {"crawlers": {"link": {"autoscaling": {"kind": "hpa", "min": 0}}}},
        {"kafka": {"hosts": "kafka"}},
        {"redis": {"cluster": "redis"}},
        {"redis": {"hosts": ["redis:6379"]}},
        {"redis": {"partitions": MOST_PARTITIONS + 1}},
        {"settings": {"user-agent": "x"}},
        {"image": {"digest": "latest"}},
        {"tlsProfiles": []},
        {"tlsProfiles": ["opera"]},
    ],
    ids=str,
)
def test_wrong_values_are_refused(wrong: dict[str, Any]) -> None:
    """A value that would be ignored, or fail later, fails at once."""
    assert list(Draft7Validator(SCHEMA).iter_errors(merged(VALUES, wrong)))


@pytest.mark.parametrize(
    "right",
    [
        {"spiders": {"shop": 2, "news": {"memoryMb": 2048, "replicas": 1}}},
        {"spiders": {"shop": 2}, "crawlers": {"link": None}},
    ],
    ids=str,
)
def test_spiders_are_named_with_their_replicas(right: dict[str, Any]) -> None:
    """Names spiders with their replicas, besides pools of crawlers or instead."""
    assert not list(Draft7Validator(SCHEMA).iter_errors(merged(VALUES, right)))


@pytest.mark.parametrize("name", sorted(TEMPLATES))
def test_templates_use_values_that_there_are(name: str) -> None:
    """A misspelt value renders as nothing, without a word."""
    for path in re.findall(r"\.Values\.([\w.]+)", TEMPLATES[name]):
        reduce(lambda values, key: values[key], path.split("."), VALUES)


def test_the_second_lock_is_as_good_as_the_first() -> None:
    """A policy lets crawlers reach no address that their guard refuses."""
    policy, text = VALUES["networkPolicy"], TEMPLATES["network.yaml"]
    internal = [*policy["internalNetworks"], *policy["internalNetworks6"]]
    assert sorted(internal) == sorted(str(network) for network in addresses._SPECIAL)
    reached = re.findall(r"cidr: (\S+)\n +except: {{ toYaml .(\w+) ", text)
    assert reached == [
        ("0.0.0.0/0", "internalNetworks"),
        (str(addresses._UNICAST), "internalNetworks6"),
    ]


def test_every_variable_is_a_setting() -> None:
    """The processes know every variable that the chart gives them."""
    named = {
        variable
        for text in TEMPLATES.values()
        for variable in re.findall(r"\b[A-Z][A-Z0-9]*_[A-Z0-9_]+\b", text)
    }
    assert "CRAWLSTREAM_MEMORY_LIMIT_MB" in named
    assert named | set(VALUES["settings"]) <= variables()


def test_the_arguments_are_processes_of_the_image() -> None:
    """The image's entrypoint knows each command of the chart."""
    entrypoint = (DOCKER / "entrypoint.sh").read_text()
    told = {
        word
        for text in TEMPLATES.values()
        for word in re.findall(r'"args" \(list "([a-z-]+)"', text)
    }
    assert told == {"kafka-monitor", "redis-monitor", "crawler", "rest", "pipelines"}
    assert all(f"    {word}) " in entrypoint for word in told)


def test_pipelines_have_their_file_and_their_spool() -> None:
    """Its paths are those of the volumes; its grace is at least as long as supervisor's."""
    text = TEMPLATES["pipelines.yaml"]
    for name, folder in re.findall(r'"name" "(\w+)" "mountPath" "([\w/]+)"', text):
        assert f"value: {folder}" in text
        assert f'"name" "{name}" "configMap"' in text or f'"name" "{name}" "emptyDir"' in text
    supervisor = configparser.RawConfigParser()
    supervisor.read(ROOT / "supervisord.conf")
    (grace_s,) = re.findall(r'"grace" (\d+)', text)
    assert int(grace_s) >= supervisor.getint("program:pipeline", "stopwaitsecs")


def test_the_chart_knows_all_tls_profiles() -> None:
    """It accepts all that exist; by default, it has those of the setting."""
    known = SCHEMA["properties"]["tlsProfiles"]["items"]["enum"]
    assert tuple(known) == PROFILES
    assert tuple(VALUES["tlsProfiles"]) == RequestLimits().tls_profiles
    assert 'CRAWLSTREAM_TLS_PROFILES: {{ join "," .Values.tlsProfiles' in TEMPLATES["settings.yaml"]


async def test_the_probes_ask_what_is_answered() -> None:
    """Each path of a probe is one that health answers."""
    paths = set(re.findall(r"httpGet: \{path: ([\w/]+),", TEMPLATES["_helpers.tpl"]))
    assert paths == {"/health/live", "/health/ready"}
    for path in paths:
        assert b" 200 OK" in health._response(path.encode(), Health)


def test_crawlers_scale_by_a_metric_that_there_is() -> None:
    """The autoscalers' metric is one of redis-monitor's, by its labels."""
    source = (ROOT / "redis-monitor" / "redis_monitor" / "metrics.py").read_text()
    assert re.search(r'"crawlstream_entries",[^\[]*\["state"\]', source)
    assert "name: crawlstream_entries" in TEMPLATES["autoscaling.yaml"]
    assert 'crawlstream_entries{state="queued"' in TEMPLATES["autoscaling.yaml"]
    assert VALUES["crawlerDefaults"]["autoscaling"]["queuePerWorker"] == 1000
    served = (DOCKER / "kubernetes" / "metrics.py").read_text()
    assert 'METRIC = "crawlstream_entries"' in served


def test_both_autoscalers_behave_alike() -> None:
    """A pool grows as fast by an HPA of the chart as by KEDA's."""
    text = TEMPLATES["autoscaling.yaml"]
    behaviours = re.findall(r"behavior:(.*)", text)
    assert behaviours == [
        f' {{{{- include "crawlstream.scaling" . | nindent {indent} }}}}' for indent in (4, 8)
    ]
    assert "scaleUp" not in text


def test_a_crawler_has_time_to_end() -> None:
    """The grace period is at least supervisor's, and so longer than a page."""
    supervisor = configparser.RawConfigParser()
    supervisor.read(ROOT / "supervisord.conf")
    grace_s = VALUES["crawlerDefaults"]["terminationGracePeriodSeconds"]
    assert grace_s >= supervisor.getint("crawler", "stopwaitsecs")


def test_the_chart_is_of_this_version() -> None:
    """The image's default tag is the version that the chart came with."""
    assert load_yaml(CHART / "Chart.yaml")["appVersion"] == __version__
