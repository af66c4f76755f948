"""Traces of pages, for OpenTelemetry: off unless ``CRAWLSTREAM_TRACES`` names a collector.

``context``  ids and sampling: which trace a page belongs to, and what the entry of a seed stores
``metrics``  how many spans are sent and dropped
``sender``   sends finished spans to the collector, on a thread of its own
``spans``    spans as OpenTelemetry has them; the only module that imports it

A process makes the spans of a page afterwards, from times that it has noted. No context follows a
page through the code, so that pages that are not sampled cost nothing.
"""
