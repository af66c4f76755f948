"""Pipelines: write the pages of a result topic into stores, each page once, with an account.

    ``read``     a batch of consecutive records of one partition of the source (`flow`)
    ``decode``   bytes become a `Page`, or a record on `<prefix>.undelivered` (`records.judging`)
    ``where``    pages that the pipeline does not want are filtered, by reason (`spec.where`)
    ``stage``    its stages make rows of a page, refuse it or do not want it (`stages`, `workers`)
    ``write``    a page that is not a repeat enters the partition's segment (`sinks.files.segments`)
    ``claim``    an object created once names the owner of a segment (`sinks.files.claims`)
    ``put``      the segment's files appear under their names, whole (`sinks.files.files_sink`)
    ``finish``   the account of the segment is written next to its claim; Kafka's commit is a hint

The store gets the pages, then the position, then Kafka the commit: a crash between any two repeats
work, and neither loses a page nor writes it twice.
"""

from __future__ import annotations

from pipeline_service.stages.page import Page

__all__ = ["Page"]
