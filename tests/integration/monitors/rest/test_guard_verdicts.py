"""Verdicts of persons over HTTP."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.monitors import MonitorCluster
from support.rest import RestProcess, running_rest


@pytest.fixture(scope="module")
def rest(
    cluster: MonitorCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RestProcess]:
    """A service."""
    with running_rest(cluster, tmp_path_factory.mktemp("rest")) as service:
        yield service


async def test_the_waste_guard_is_overruled(rest: RestProcess) -> None:
    """Verdicts of persons have an author and a time, and are taken back; nonsense is refused."""
    path = "/v2/domains/www.guarded.com/guard"
    told = (await rest.call("PUT", path, {"family": "/c/#", "verdict": "refuse"})).data
    assert told["site"] == "guarded.com"
    (verdict,) = told["persons"]
    assert (verdict["family"], verdict["verdict"]) == ("/c/#", "refuse")
    assert verdict["author"]
    assert verdict["at"] > 0
    forget = {"family": "/c/#", "verdict": "forget"}
    assert (await rest.call("PUT", path, forget)).data["persons"] == []
    assert (await rest.call("PUT", path, forget)).status == 404
    for wrong in ({"family": "c", "verdict": "allow"}, {"family": "?c", "verdict": "open"}, {}):
        assert (await rest.call("PUT", path, wrong)).status == 422, wrong
