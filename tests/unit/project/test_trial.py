"""The trials of images and chart (try.sh, kubernetes/try.sh), as far as no container is needed."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml

from crawlstream_cli.demo.access_log import LoggedRequest
from crawlstream_cli.demo.http_reply import render
from crawlstream_cli.demo.truth import FollowRules, expected_pages
from crawlstream_cli.demo.web import Web
from support.variables import DOCKER, load_yaml, variables

SCRIPT = (DOCKER / "try.sh").read_text()
KUBERNETES = DOCKER / "kubernetes"
SITE = load_yaml(DOCKER / "compose.demo.yaml")["services"]["demo-site"]
WEB = Web(8000, hosts=1, pages=600, first_host="172.31.250.10", slow_pages=5)
TRUTH = expected_pages(WEB, FollowRules(maxdepth=3))
Log = dict[str, list[float]]
"""URL -> when it was asked for, in milliseconds."""


def right_log() -> Log:
    """The log of a crawl as it must be: 20 a second."""
    urls = chain.from_iterable([url] * times for url, times in TRUTH.fetches.items())
    log: Log = {}
    for number, url in enumerate(urls):
        log.setdefault(url, []).append(number * 50.0)
    return log


def lose(log: Log) -> None:
    """A page is never asked for."""
    del log[next(reversed(log))]


def repeat(log: Log) -> None:
    """A page is asked for once more, a minute later."""
    log[next(iter(log))].append(90_000.0)


def hurry(log: Log) -> None:
    """The first visits of 26 pages lie within a second, all others after it."""
    for number, times in enumerate(log.values()):
        times[:] = [at + 5_000 for at in times]
        if number < 26:
            times[0] = number * 39.0


def leave(log: Log) -> None:
    """All is as it must be."""


def ask_referee(
    folder: Path, results: list[dict[str, Any]], visits: list[LoggedRequest], *arguments: str
) -> tuple[int, str]:
    """Its exit code, and what it says of lost pages, windows and second fetches."""
    for name, lines in (("results", results), ("visits", visits)):
        (folder / f"{name}.jsonl").write_bytes(b"".join(orjson.dumps(x) + b"\n" for x in lines))
    argv = (sys.executable, "-P", str(DOCKER / "referee.py"), *arguments)
    done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=False)
    assert not done.stderr
    return done.returncode, done.stdout[done.stdout.rindex("lost ") :].rstrip()


@pytest.mark.parametrize(
    ("change", "arguments", "code", "facts"),
    [
        (leave, ("once",), 0, "lost 0, windows 0, fetched again 0"),
        (lose, (), 1, "lost 1, windows 0, fetched again 0"),
        (repeat, (), 0, "lost 0, windows 0, fetched again 1"),
        (repeat, ("once",), 1, "lost 0, windows 0, fetched again 1"),
        (hurry, (), 1, "lost 0, windows 1, fetched again 0"),
    ],
)
def test_the_referee_sees_what_is_wrong(
    tmp_path: Path, change: Callable[[Log], None], arguments: tuple[str, ...], code: int, facts: str
) -> None:
    """A lost page and a hit too many are always wrong, a second fetch where nothing is killed."""
    log = right_log()
    change(log)
    results = [
        {"url": url, "status_code": status} for url, status in TRUTH.delivered.items() if url in log
    ]
    visits = [
        LoggedRequest(
            at, at, "172.31.250.10", "GET", url.removeprefix(WEB.origin(WEB.hosts[0])), 200, ""
        )
        for url, times in log.items()
        for at in times
    ]
    assert ask_referee(tmp_path, results, visits, *arguments) == (code, facts)


@pytest.mark.parametrize(
    ("further", "profile", "code"),
    [(3, "chrome", 0), (2, "chrome", 1), (4, "chrome", 1), (0, "chrome", 1), (3, "default", 1)],
)
def test_the_referee_sees_how_pages_were_fetched(
    tmp_path: Path, further: int, profile: str, code: int
) -> None:
    """Each page must be rendered with all that its script sends, and come by the TLS profile."""
    web = Web(
        8000,
        hosts=1,
        pages=600,
        first_host="172.31.250.10",
        slow_pages=5,
        scheme="https",
        further=3,
    )
    truth = expected_pages(web, FollowRules(maxdepth=3))
    requests = chain.from_iterable([url] * times for url, times in truth.fetches.items())
    scripts = [
        f"/further/{number}{page.path}"
        for page in web.pages
        if web.url(page) in truth.delivered and b"<script>" in render(web, page).body
        for number in range(further)
    ]
    paths = [url.removeprefix(web.origin(web.hosts[0])) for url in requests]
    visits = [
        LoggedRequest(number * 50.0, 0, web.hosts[0], "GET", path, 200, "")
        for number, path in enumerate([*paths, *scripts])
    ]
    results = [
        {"url": url, "status_code": status, "tls_profile": profile, "render": {}}
        for url, status in truth.delivered.items()
    ]
    asked = ask_referee(tmp_path, results, visits, "once", "--further", "3", "--tls", "chrome")
    assert asked == (code, "lost 0, windows 0, fetched again 0")


def test_the_trial_has_the_same_site_in_other_ways() -> None:
    """Its pages are those that the referee knows: with links that scripts make, or behind TLS."""
    words = SITE["command"]
    for name, more in (("scripted", ["--further", "3"]), ("secure", ["--certificate", "site.pem"])):
        site = load_yaml(DOCKER / f"compose.{name}.yaml")["services"]["demo-site"]
        assert site["command"] == [*words[:-2], *more, *words[-2:]]


def test_the_trial_runs_every_image() -> None:
    """Each target of the Dockerfile that is an image crawls in it, as compose.yaml runs it."""
    stages = re.findall(r"^FROM base AS (\S+)", (DOCKER / "Dockerfile").read_text(), re.MULTILINE)
    compose = "".join((DOCKER / f"compose{each}.yaml").read_text() for each in ("", ".secure"))
    targets = re.findall(r"TARGET(?:=|:-)(\w+)|target: (\w+)", SCRIPT + compose)
    assert set(stages) == {either or other for either, other in targets}


def test_the_referee_knows_the_site() -> None:
    """Its web, and its rule, are those of the trial."""
    options = dict(zip(SITE["command"][1::2], SITE["command"][2::2], strict=True))
    assert (options["--port"], options["--first-host"]) == (str(WEB.port), WEB.hosts[0])
    assert (options["--hosts"], options["--pages"]) == ("1", str(len(WEB.pages)))
    referee = (DOCKER / "referee.py").read_text()
    assert "Web(8000, hosts=1, pages=600, first_host=options.host, slow_pages=5)" in referee
    assert f'"--host", default="{WEB.hosts[0]}"' in referee
    assert options["--slow-pages"] == "5"
    rule = re.findall(r"--hits (\d+) --window 1", SCRIPT)
    assert rule == re.findall(r'"--hits", type=int, default=(\d+)', referee)


def test_kubernetes_has_the_same_site_and_servers() -> None:
    """Differs from compose in addresses only, so that one referee judges both."""
    documents = list(yaml.safe_load_all((KUBERNETES / "servers.yaml").read_text()))
    (site,) = (each for each in documents if each["kind"] == "Pod")
    (container,) = site["spec"]["containers"]
    words = " ".join(SITE["command"]).replace(WEB.hosts[0], "$POD_IP")
    told = re.findall(r"--[a-z-]+ \S+", container["command"][-1])
    assert sorted(told) == sorted(re.findall(r"--[a-z-]+ \S+", words))
    assert {each["name"] for each in container["env"]} - {"POD_IP"} <= variables()

    compose = load_yaml(DOCKER / "compose.yaml")["services"]["kafka"]["environment"]
    (kafka,) = (
        each["spec"]["template"]["spec"]["containers"][0]
        for each in documents
        if each["kind"] == "Deployment" and each["metadata"]["name"] == "kafka"
    )
    given = {each["name"]: each["value"] for each in kafka["env"]}
    for name in (name for name in compose if not re.search("HEAP|LISTENER|VOTERS", name)):
        assert given[name] == str(compose[name])


def test_the_trial_on_kubernetes_spares_no_process() -> None:
    """Each process that the chart runs by default is killed and deleted while a crawl runs."""
    script = (KUBERNETES / "try.sh").read_text()
    (named,) = re.findall(r"^components=\((.*)\)$", script, re.MULTILINE)
    templates = (DOCKER / "helm" / "crawlstream" / "templates").glob("*.yaml")
    text = "\n".join(path.read_text() for path in templates)
    chart = set(re.findall(r'\(dict (?:"root" \$ )?"component" "([a-z-]+)"', text))
    assert set(named.split()) == chart - {"pipeline"} | {"crawler-link"}
    functions = re.findall(r"^(\w+)\(\) {(?: #.*)?\n((?:(?!}).*\n)*)}", script, re.MULTILINE)
    crawls = [name for name, body in functions if f"    begin {name} " in body]
    (default,) = re.findall(r"\|\| set -- (.*)$", script, re.MULTILINE)
    assert sorted(default.split()) == sorted(["checked", *crawls])


def test_no_container_is_spared() -> None:
    """Each service that runs without a profile is restarted and killed while a crawl runs."""
    (named,) = re.findall(r"^services=\((.*)\)$", SCRIPT, re.MULTILINE)
    services = load_yaml(DOCKER / "compose.yaml")["services"]
    assert set(named.split()) == {name for name, each in services.items() if "profiles" not in each}
    for name in named.split():
        assert services[name]["restart"] == "unless-stopped"


@pytest.mark.parametrize("path", sorted(DOCKER.rglob("*.sh")), ids=lambda path: path.name)
def test_scripts_can_be_read_by_their_shell(path: Path) -> None:
    """Each can be run, and has no error of syntax."""
    shell = path.read_text().partition("\n")[0].removeprefix("#!")
    assert path.stat().st_mode & 0o111
    done = subprocess.run([shell, "-n", str(path)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_files_that_it_names_are_there() -> None:
    """Compose files, each made for services of compose.yaml or of the site."""
    known = set(load_yaml(DOCKER / "compose.yaml")["services"]) | {"demo-site"}
    named = set(re.findall(r"-f (compose[\w.]*\.yaml)", SCRIPT))
    assert named == {
        "compose.yaml",
        "compose.servers.yaml",
        "compose.demo.yaml",
        "compose.full.yaml",
        "compose.scripted.yaml",
        "compose.secure.yaml",
        "compose.partitions.yaml",
    }
    for name in named:
        own = {f"redis-{number}" for number in range(2, 7)} if "partitions" in name else set()
        assert set(load_yaml(DOCKER / name)["services"]) <= known | own
