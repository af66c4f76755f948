"""States of pipelines: reports of several processes become one state of each."""

from __future__ import annotations

from dataclasses import replace

from crawlstream.model.process import Activity
from rest_service.v2.pipeline_states import states_of
from support.pipelines.told import process, report


def test_a_pipeline_is_told_with_its_account() -> None:
    """Its records add up to those that were read, and the lag is the number of unstored ones."""
    (one,) = states_of([replace(process(archive=report()), activity=Activity(rate=3.5))])
    assert (one.name, one.state, one.problem, one.remedy) == ("archive", "running", "", "")
    assert (one.lag, one.rate, one.oldest_s, one.positions) == (8, 3.5, 2.5, {"0": 12})
    rest = sum(one.filtered.values()) + sum(one.undelivered.values())
    assert one.read == one.delivered + one.repeats + rest


def test_of_a_partition_counts_who_has_come_farthest() -> None:
    """A process that has lost it reports an old state; the source's end is the later one."""
    late = report(position=5, end=30)
    for told in ([late, report()], [report(), late]):
        (one,) = states_of(process(archive=each) for each in told)
        assert (one.positions, one.lag, one.read, one.processes) == ({"0": 12}, 18, 12, 2)


def test_an_older_edition_is_left_out() -> None:
    """Its positions are of other files."""
    (one,) = states_of([process(archive=report(edition=1)), process(archive=report(edition=2))])
    assert (one.edition, one.processes, one.read) == (2, 1, 12)


def test_a_problem_comes_with_the_command_that_shows_it() -> None:
    """Pipelines that need an operator come before those that wait for a service."""
    waits, broken = report(waiting_for="kafka"), report(broken="20 records are undelivered")
    states = {
        one.name: (one.state, one.problem, one.remedy)
        for one in states_of(
            [process(a=waits, b=waits, c=report(broken="an end is lost")), process(b=broken)]
        )
    }
    assert states == {
        "a": ("waiting", "kafka", "./crawlstream pipeline check a"),
        "b": (
            "broken",
            "20 records are undelivered",
            "./crawlstream pipeline undelivered list b",
        ),
        "c": ("broken", "an end is lost", "./crawlstream pipeline check c"),
    }
