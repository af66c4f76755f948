"""Pipelines of a process (``ITEM_PROCESSOR``): none can keep an item permanently, or end it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from scrapy.pipelines import ItemPipelineManager

from crawling.page.flight_recorder import FlightRecorder
from crawling.parts import Parts
from crawling.publish.deadlines import Deadlines, page_at_hand

if TYPE_CHECKING:
    from scrapy.crawler import Crawler


class BoundPipelines(ItemPipelineManager):
    """Scrapy's, with the deadline of the item's page, which is noted while they are on the CPU."""

    _deadlines: Deadlines
    _recorder: FlightRecorder

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Scrapy's way to make one."""
        manager = super().from_crawler(crawler)
        parts = Parts.of(crawler)
        manager._deadlines, manager._recorder = parts.deadlines, parts.recorder  # noqa: SLF001  subclass of this module
        return manager

    async def process_item_async(self, item: Any) -> Any:
        """Let an item pass all pipelines; PageTimeout where that takes too long."""
        page, pass_all = page_at_hand.get(), super().process_item_async
        if page is None:
            return await pass_all(item)
        with self._deadlines.stretch(page):
            return await self._recorder.call(page, pass_all, item)
