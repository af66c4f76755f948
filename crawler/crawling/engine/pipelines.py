"""The pipelines of a process (``ITEM_PROCESSOR``): none keeps an item, and its page, for ever."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from scrapy.pipelines import ItemPipelineManager

from crawling.parts import Parts
from crawling.publish.deadlines import Deadlines, page_at_hand

if TYPE_CHECKING:
    from scrapy.crawler import Crawler


class BoundPipelines(ItemPipelineManager):
    """Scrapy's, with the deadline of the item's page."""

    _deadlines: Deadlines

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Scrapy's way to make one."""
        manager = super().from_crawler(crawler)
        manager._deadlines = Parts.of(crawler).deadlines  # noqa: SLF001  it is ours
        return manager

    async def process_item_async(self, item: Any) -> Any:
        """Let an item pass all pipelines; PageTimeout where that takes too long."""
        page = page_at_hand.get()
        if page is None:
            return await super().process_item_async(item)
        with self._deadlines.stretch(page):
            return await super().process_item_async(item)
