"""Modules that users' spiders may import, by the names that the documentation gives."""

from __future__ import annotations

import importlib
import sys

import pytest

import crawling

PUBLIC = {"ClusterSpider", "CrawlResult", "Outlinks", "links_of"}


def test_the_public_names_are_these() -> None:
    """No more and no fewer: each is a promise."""
    assert set(crawling.__all__) == PUBLIC
    assert all(getattr(crawling, name).__doc__ for name in PUBLIC)
    with pytest.raises(AttributeError, match="'crawling' has no attribute 'Worker'"):
        _ = crawling.Worker


@pytest.mark.parametrize(("module", "name"), [("outlinks", "Outlinks"), ("links", "links_of")])
def test_older_import_paths_work_and_warn(module: str, name: str) -> None:
    """They name the import that is to be written instead."""
    sys.modules.pop("crawling.outlinks", None)
    with pytest.warns(DeprecationWarning, match=f"import {name} from crawling, not"):
        found = getattr(importlib.import_module(f"crawling.{module}"), name)
    assert found is getattr(crawling, name)


def test_spiders_of_the_predecessor_find_their_base() -> None:
    """Provides the base class where scrapy-cluster had it."""
    from crawling.spiders.redis_spider import RedisSpider  # noqa: PLC0415  what is tested

    assert RedisSpider is crawling.ClusterSpider
