"""Bugs on purpose in the stages of pipelines: workers, repeats, and the reported quality."""

# ruff: noqa: E501  what is planted is quoted as it stands

from __future__ import annotations

from mutation.bug import Bug

STAGE_BUGS = {
    "an undelivered page that comes again counts as another one": Bug(
        module="pipeline_service.sinks.files.segments",
        right="        if isinstance(judged, Repeat) or name in self:\n",
        wrong="        if name in self and isinstance(judged, Wanted):\n",
        test="unit/pipeline/test_staging.py::undelivered_page_that_comes_again",
    ),
    "a page that comes twice at once is judged twice": Bug(
        module="pipeline_service.staging",
        right="        if each.id and (each.id in seen or is_known(each.id)):\n",
        wrong="        if each.id and is_known(each.id):\n",
        test="unit/pipeline/test_staging.py::comes_again_is_no_work",
    ),
    "what a lost worker had at hand is begun anew from its first record": Bug(
        module="crawlstream_extract.workers.pool",
        right="            if await self._alone(slot, values[len(done)], done, beat, before=before):\n",
        wrong="            if await self._alone(slot, values[0], done, beat, before=before):\n",
        test="integration/pipeline/test_workers.py::somebody_kills or frozen or kills_three_workers",
    ),
    "a field that fails a rule counts as valid": Bug(
        module="pipeline_service.spec.quality.counts",
        right="                counted.valid += name not in failing\n",
        wrong="                counted.valid += 1\n",
        test="unit/pipeline/test_quality.py::judged_by_what_is_expected",
    ),
    "counts of some items are told as those of all": Bug(
        module="pipeline_service.records.account",
        right="            self.runs[run].quality.forget()\n",
        wrong="            self.runs[run].quality = QualityCounts()\n",
        test="unit/pipeline/test_quality.py::forgotten_in_one_partition",
    ),
    "runs of other pages are judged": Bug(
        module="pipeline_service.spec.quality.expect",
        right="        if quality.is_cut or not pages or not (quality.is_counted or self.expect):\n",
        wrong="        if quality.is_cut or not (quality.is_counted or self.expect):\n",
        test="unit/pipeline/test_quality.py::run_without_items",
    ),
}
