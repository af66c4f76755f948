"""REST answers as its OpenAPI description says, whatever it is sent: by requests made of it.

``DESCRIBED_EXAMPLES=500`` is the long form: as many requests to each operation.
"""

from __future__ import annotations

import http.client
import os
import time
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings

from crawlstream_frontier.scrapes.scrape_names import ScrapeNames
from support.hostile.described import DescribedRequest, Description
from support.monitors import MonitorCluster
from support.rest import Answer, RestProcess, rest_beside_monitors

SHORT = 12
EXAMPLES = int(os.environ.get("DESCRIBED_EXAMPLES", SHORT))
"""Requests to each operation."""
IS_LONG = EXAMPLES > SHORT
AT_MOST_S = 15
"""Seconds of the short form; an operation that is slow has fewer requests then, at least one."""
APP = "described"
SLOWEST_S = 15
"""Seconds of one request; those that read Kafka, or wait for a reply, take the longest."""


@pytest.fixture(scope="module")
def rest(
    cluster: MonitorCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RestProcess]:
    """Return a service with both monitors, without crawlers, that has something to show."""
    folder = tmp_path_factory.mktemp("rest")
    with rest_beside_monitors(cluster, folder, wait_s=1, CRAWLSTREAM_REST_RATE="0") as service:
        yield service


@pytest.fixture(scope="module")
def described(rest: RestProcess, cluster: MonitorCluster) -> Description:
    """Return the description that the service publishes, for something that exists there."""
    seed = {"url": "http://h.example/", "appid": APP, "crawlid": "one", "maxdepth": 1}
    assert rest._call("POST", "/v2/crawls", seed, {}).status == 202
    cluster.feed_in_order("rejected", {"url": "none", "appid": APP, "crawlid": "one"})
    known: dict[str, list[object]] = {
        "appid": [APP],
        "crawlid": ["one"],
        "spiderid": ["link"],
        "domain": ["h.example"],
        "url": [seed["url"]],
        "id": [ScrapeNames().new(60).id],
    }
    told = rest._call("GET", "/v2/openapi.json", None, {}).value
    return Description(told, known, only={"wait": [0, 0.1]})


def answer_to(rest: RestProcess, request: DescribedRequest) -> Answer:
    """Make a request; of a stream, only the head of the answer is read."""
    connection = http.client.HTTPConnection("127.0.0.1", rest.port, timeout=SLOWEST_S)
    try:
        connection.request(request.method, request.target, request.body, dict(request.headers))
        response = connection.getresponse()
        headers = {name.lower(): value for name, value in response.getheaders()}
        headers.setdefault("content-type", "")
        is_stream = headers["content-type"].startswith("text/event-stream")
        return Answer(response.status, headers, b"" if is_stream else response.read())
    finally:
        connection.close()


def problem_of(
    rest: RestProcess, described: Description, operation: tuple[str, str], within_s: float
) -> str | None:
    """Return the smallest request to an operation whose answer is not described; None: none."""
    until = time.monotonic() + within_s
    problems: dict[str, str | None] = {}

    @settings(
        max_examples=EXAMPLES,
        database=None,
        derandomize=not IS_LONG,
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
    )
    @given(described.requests(*operation))
    def is_described(request: DescribedRequest) -> None:
        name = repr(request)
        if name not in problems:
            if problems and time.monotonic() > until and not IS_LONG:
                return
            problems[name] = described.problem(*operation, request, answer_to(rest, request))
        assert problems[name] is None, f"{name}: {problems[name]}"

    try:
        is_described()
    except (AssertionError, OSError) as error:
        return str(error).splitlines()[0]
    return None


def test_every_answer_is_described(rest: RestProcess, described: Description) -> None:
    """Status, type and body of each answer; no request is answered 5xx, right or wrong."""
    operations = [one for one in described.operations() if one[0].startswith("/v2/")]
    assert len(operations) > 40
    until = time.monotonic() + AT_MOST_S
    found = list[str]()
    for number, operation in enumerate(operations):
        share = (until - time.monotonic()) / (len(operations) - number)
        if problem := problem_of(rest, described, operation, share):
            found.append(problem)
    assert not found, "\n".join(found)
    assert rest.process.is_running()
