"""Features crossed in pairs, and the pairs that make no sense, each with its reason."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Mapping, Sequence
from itertools import combinations

from interplay import features
from interplay.story import Feature

NO_SENSE: Mapping[frozenset[str], str] = {
    frozenset({"schedule", "not_before"}): "a schedule has times of its own, and refuses the field",
    frozenset({"remember", "forget"}): "they say the opposite",
    frozenset({"remember", "domain_max_bytes"}): "nothing enters any more once it is spent",
    frozenset({"domain_max_bytes", "replay"}): "which pages enter depends on the order",
    frozenset({"domain_max_bytes", "max_pages"}): "which of them cuts first depends on the order",
    frozenset({"remember", "max_pages"}): "nothing enters any more once the limit is reached",
    frozenset({"remember", "domain_max_pages"}): "nothing enters any more once it is reached",
    frozenset({"max_pages", "domain_max_pages"}): "which of them cuts first depends on the order",
    frozenset({"own spider", "hand-over"}): "a crawl has one spider for its pages",
    frozenset({"own spider", "replay"}): "a crawl has one spider for its pages",
    frozenset({"hand-over", "replay"}): "a crawl has one spider for its pages",
    frozenset({"HEAD", "replay"}): "nothing is found that could fail",
    frozenset({"max_pages", "replay"}): "which pages enter depends on the order",
    frozenset({"domain_max_pages", "replay"}): "which pages enter depends on the order",
    frozenset({"HEAD", "POST"}): "a request has one method",
    frozenset({"stop", "expiry"}): "a run ends in one way",
    frozenset({"HEAD", "sitemap"}): "a sitemap without a body lists nothing",
    frozenset({"expiry", "second feed"}): "what is fed after the expiry belongs to the next run",
    frozenset({"stop", "pause"}): "a run that is stopped is not resumed",
    frozenset({"expiry", "pause"}): "a run that has expired is not resumed",
    frozenset({"answer", "schedule"}): "a seed of an occasion has no such reply",
    frozenset({"answer", "second feed"}): "it waits for `accepted`, which is not sent then",
    frozenset({"HEAD", "pause"}): "its only page is in flight, and ends the run amid the pause",
}


def all_features() -> Sequence[Feature]:
    """Return an instance of each feature, with its name as the key."""
    found = []
    for module in pkgutil.walk_packages(features.__path__, f"{features.__name__}."):
        loaded = importlib.import_module(module.name)
        found += [
            each
            for _, each in inspect.getmembers(loaded, inspect.isclass)
            if issubclass(each, Feature) and each.__module__ == loaded.__name__
        ]
    return sorted((each() for each in found), key=lambda feature: feature.name)


FOUND_BUGS = (
    ("moved seed", "schedule"),
    ("moved seed", "sitemap"),
    ("hand-over",),
    ("forget",),
    ("hand-over", "moved link"),
)
"""Casts that have found a bug: they belong to every sample."""


def all_casts() -> Sequence[Sequence[Feature]]:
    """Return each feature alone, and each pair of two that may meet."""
    found = all_features()
    pairs = [pair for pair in combinations(found, 2)
             if frozenset(each.name for each in pair) not in NO_SENSE]  # fmt: skip
    return [*([each] for each in found), *pairs]
