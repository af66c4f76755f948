"""Ports for another cluster: free, and reserved for the process that has chosen them."""

from __future__ import annotations

import subprocess
import sys

import pytest

from crawlstream_cli.local import ports
from crawlstream_cli.local.ports import Ports, free_block, is_free

FEW = range(19_000, 19_008)
"""Ports that nothing else here chooses."""
CHOOSER = f"""
from crawlstream_cli.local import ports
ports._RANGE = {FEW!r}
print(sorted(ports.free_block(1) for _ in ports._RANGE), flush=True)
input()
"""
"""A program that reserves all of them until it is killed, and listens on none."""


def test_free_ports_are_free_and_apart() -> None:
    """Ports for another cluster can be listened on, the controller's included."""
    chosen = Ports.free()
    numbers = [chosen.kafka, chosen.kafka + 1, chosen.zookeeper, chosen.redis, chosen.rest]
    numbers.append(chosen.metrics)
    assert len(set(numbers)) == len(numbers)
    assert all(is_free(port) for port in numbers)
    assert Ports.given(chosen.variables()) == chosen
    assert Ports.given({"FLASK_PORT": "5443"}) == Ports(rest=5443)
    assert Ports.given({"FLASK_PORT": "5443", "CRAWLSTREAM_REST_PORT": "1"}) == Ports(rest=1)


def test_no_two_processes_choose_the_same_port(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ports that a process has chosen are not chosen by another one until it has ended."""
    monkeypatch.setattr(ports, "_RANGE", FEW)
    with subprocess.Popen(
        [sys.executable, "-c", CHOOSER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        try:
            assert other.stdout.readline() == f"{[*FEW]}\n"
            with pytest.raises(OSError, match="no 1 consecutive free ports"):
                free_block(1)
        finally:
            other.kill()
    assert free_block(1) in FEW


def test_a_port_is_chosen_again_only_after_all_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that has chosen every port chooses those whose servers have ended again."""
    monkeypatch.setattr(ports, "_RANGE", FEW)
    assert {free_block(1) for _ in FEW} == set(FEW)
    assert free_block(1) in FEW
