"""Alerts and dashboards ask for metrics that exist, and lead to runbooks that exist.

What the alerts do over time is for promtool to say: docs/monitoring.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml

from support.reference import DOCS, METRICS, exported, metrics_of

MONITORING = DOCS.parent / "docker" / "monitoring"
BOARDS = sorted((MONITORING / "dashboards").glob("*.json"))
PANELS = {"alertlist", "stat", "table", "timeseries"}

EXPORTED = {
    name: set(metric._labelnames)
    for module in METRICS.values()
    for metric in metrics_of(module)
    for name in exported(metric)
}
OTHERS = {"ALERTS", "up", "process_cpu_seconds_total", "process_resident_memory_bytes"}
OTHERS |= {"process_open_fds"}
"""Metrics of Prometheus and its client themselves."""
THEIR_LABELS = {"alertname", "alertstate", "instance", "job", "le"}


def rules() -> list[dict[str, Any]]:
    """The alerts."""
    groups = yaml.safe_load((MONITORING / "rules.yml").read_text(encoding="utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"]]


def test_the_documentation_counts_the_alerts() -> None:
    """docs/monitoring.md says how many there are."""
    number = sum("alert" in rule for rule in rules())
    assert f"There are {number} alerts" in (DOCS / "monitoring.md").read_text(encoding="utf-8")


def asked(expression: str) -> Iterator[tuple[str, set[str]]]:
    """Each series that an expression selects, with the labels that it selects by."""
    for name, selector in re.findall(
        r"\b((?:crawlstream|process)_\w+|ALERTS|up\b)(\{[^}]*\})?", expression
    ):
        yield name, set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", selector))


def grouped_by(expression: str) -> set[str]:
    """Labels that an expression adds up by."""
    return {
        label.strip()
        for labels in re.findall(r"\bby \(([^)]*)\)", expression)
        for label in labels.split(",")
    }


def check(expression: str) -> None:
    """Series and labels of an expression are ones that a process exports."""
    series = list(asked(expression))
    assert series, expression
    known = set(THEIR_LABELS)
    for name, labels in series:
        assert name in EXPORTED or name in OTHERS, f"{name} in {expression}"
        known |= EXPORTED.get(name, set())
        assert labels <= EXPORTED.get(name, set()) | THEIR_LABELS, expression
    assert grouped_by(expression) <= known, expression


def test_alerts_ask_for_what_is_exported() -> None:
    """Every metric and label in a rule exists."""
    for rule in rules():
        check(rule["expr"])


def test_alerts_lead_to_runbooks() -> None:
    """Every alert has a severity, a summary, and a section of docs/operations.md."""
    page = (DOCS / "operations.md").read_text(encoding="utf-8")
    sections = {title.lower() for title in re.findall(r"^## (\w+)$", page, re.MULTILINE)}
    for rule in rules():
        assert rule["labels"]["severity"] in {"critical", "warning", "info"}
        assert rule["annotations"]["summary"]
        link = rule["annotations"]["runbook_url"]
        base, _, anchor = link.partition("/operations/#")
        assert base == "{{ $externalLabels.docs }}"
        assert anchor in sections, link


def test_every_alert_is_tested() -> None:
    """rules.test.yml lets each alert fire at least once."""
    tests = yaml.safe_load((MONITORING / "rules.test.yml").read_text(encoding="utf-8"))["tests"]
    fired = {
        name
        for test in tests
        for one in test["promql_expr_test"]
        if one["exp_samples"]
        for name in re.findall(r'alertname="(\w+)"', one["expr"])
    }
    assert fired == {rule["alert"] for rule in rules()}


@pytest.mark.parametrize("path", BOARDS, ids=lambda path: path.stem)
def test_a_dashboard_has_the_shape_that_grafana_reads(path: Path) -> None:
    """Known panels with numbers of their own, on its grid of 24 columns, none over another."""
    board = orjson.loads(path.read_bytes())
    assert board["uid"] == f"crawlstream-{path.stem}"
    assert board["title"].startswith("Crawlstream: ")
    assert [one["name"] for one in board["templating"]["list"]] == ["datasource"]
    panels = board["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels) > 0
    for panel in panels:
        place = panel["gridPos"]
        assert panel["type"] in PANELS
        assert panel["title"]
        assert place["x"] >= 0
        assert 0 < place["w"] <= 24 - place["x"]
        names = [target["refId"] for target in panel["targets"]]
        assert len(set(names)) == len(names)
    for one, other in combinations([panel["gridPos"] for panel in panels], 2):
        assert not (
            one["x"] < other["x"] + other["w"]
            and other["x"] < one["x"] + one["w"]
            and one["y"] < other["y"] + other["h"]
            and other["y"] < one["y"] + one["h"]
        )


@pytest.mark.parametrize("path", BOARDS, ids=lambda path: path.stem)
def test_a_dashboard_asks_for_what_is_exported(path: Path) -> None:
    """Every metric and label in a query exists, and each query goes to the chosen Prometheus."""
    for panel in orjson.loads(path.read_bytes())["panels"]:
        for target in panel["targets"]:
            assert target["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
            check(target["expr"])


def test_every_metric_of_the_cluster_is_watched() -> None:
    """No gauge or counter is exported that neither an alert nor a dashboard looks at."""
    expressions = [rule["expr"] for rule in rules()]
    for path in BOARDS:
        for panel in orjson.loads(path.read_bytes())["panels"]:
            expressions += [target["expr"] for target in panel["targets"]]
    watched = {name for expression in expressions for name, _ in asked(expression)}
    unwatched = {
        metric._name
        for module in METRICS.values()
        for metric in metrics_of(module)
        if not watched & set(exported(metric))
    }
    assert unwatched == {"crawlstream_rest_seconds", "crawlstream_rest_waiting"}


def test_containers_are_watched_by_the_names_they_have() -> None:
    """Prometheus looks for the services of compose.yaml, or what all crawlers are called."""
    docker = MONITORING.parent
    services = yaml.safe_load((docker / "compose.yaml").read_text(encoding="utf-8"))["services"]
    config = yaml.safe_load((MONITORING / "prometheus.yml").read_text(encoding="utf-8"))
    dockerfile = (docker / "Dockerfile").read_text(encoding="utf-8")
    port = int(re.findall(r"CRAWLSTREAM_METRICS_PORT=(\d+)", dockerfile)[0])
    for job in config["scrape_configs"]:
        for found in job["dns_sd_configs"]:
            assert found["port"] == port
            assert set(found["names"]) <= services.keys() | {"crawlers"}
    for service in services.values():
        if service.get("command", [""])[0] == "crawler":
            assert service["networks"]["default"] == {"aliases": ["crawlers"]}


def test_the_monitors_are_given_files_that_exist() -> None:
    """Files that compose.monitoring.yaml mounts exist."""
    path = MONITORING.parent / "compose.monitoring.yaml"
    for service in yaml.safe_load(path.read_text(encoding="utf-8"))["services"].values():
        for volume in service["volumes"]:
            source = volume.split(":")[0]
            assert not source.startswith(".") or (path.parent / source).exists(), volume
