"""Which partition has what: the same everywhere and for good, in equal shares."""

from __future__ import annotations

from collections import Counter

import pytest
from redis.crc import key_slot

from crawlstream.keys import MOST_PARTITIONS, SLOTS, FrontierKeys, Partitions
from crawlstream.model.crawl import CrawlKey

CRAWL = CrawlKey("link", "app", "crawl")


def test_one_partition_has_all() -> None:
    """Its keys are those of an undivided frontier."""
    partitions = Partitions("cs")
    assert partitions.keys(0) == partitions.root == FrontierKeys("cs")
    assert partitions.root.tag == "{cs0}"
    assert {
        partitions.of("a.example"),
        partitions.of("b.example"),
        partitions.coordinator(CRAWL),
    } == {0}


def test_a_domain_stays_where_it_is() -> None:
    """These numbers must never change: they say where data lies."""
    partitions = Partitions("cs", 16)
    places = [partitions.of(domain) for domain in ("example.com", "10.0.0.1", "münchen.example")]
    assert places == [9, 3, 3]
    assert partitions.coordinator(CRAWL) == 13
    tags = [partitions.keys(partition).tag for partition in (0, 7, 15)]
    assert tags == ["{cs0.11}", "{cs7.2}", "{cs15.22}"]


@pytest.mark.parametrize("number", [2, 3, 16, 100, MOST_PARTITIONS])
def test_tags_are_in_equal_ranges_of_slots(number: int) -> None:
    """Puts the tag of partition p into the p-th of equal ranges of slots."""
    partitions = Partitions("cs", number)
    tags = [partitions.keys(partition).tag for partition in range(number)]
    slots = [key_slot(f"{tag}m".encode()) for tag in tags]
    assert [slot * number // SLOTS for slot in slots] == [*range(number)]
    assert len({*tags}) == number


def test_domains_and_coordinators_are_spread() -> None:
    """No partition has more than a tenth above its share of ten thousand."""
    partitions = Partitions("cs", 16)
    domains = Counter(partitions.of(f"site-{n}.example") for n in range(10_000))
    coordinators = Counter(
        partitions.coordinator(CrawlKey("link", "app", f"{n}")) for n in range(10_000)
    )
    assert max(domains.values()) < 10_000 / 16 * 1.1
    assert max(coordinators.values()) < 10_000 / 16 * 1.1


@pytest.mark.parametrize("number", [0, -1, MOST_PARTITIONS + 1])
def test_a_number_that_cannot_be_is_refused(number: int) -> None:
    """Refuses an impossible number, and names the bounds."""
    with pytest.raises(ValueError, match=f"1 to {MOST_PARTITIONS} partitions"):
        Partitions("cs", number)


@pytest.mark.parametrize("partition", [-1, 4])
def test_a_partition_that_is_not_there_has_no_keys(partition: int) -> None:
    """Has no keys for a missing partition, nor for one counted from the end."""
    with pytest.raises(IndexError, match=f"partition {partition} of 4"):
        Partitions("cs", 4).keys(partition)
