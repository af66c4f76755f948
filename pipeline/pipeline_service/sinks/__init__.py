"""Sinks of pages: each kind of sink keeps the position of a pipeline with its pages.

    ``sink``          interface of a sink for a flow, and of its notes for other callers
    ``rows``          any store of rows as a sink: position, account and rows in one transaction
    ``idempotent``    stores without transactions as stores of rows
    ``kept_notes``    notes of such a store, of a folder or of a table, about a pipeline
    ``sql``           PostgreSQL and SQLite as such stores
    ``segment_sink``  segments of pages that are files, whatever stores them
    ``files``         JSON lines, WARC and Parquet; no transactions, claims instead
    ``lake``          tables that consist of Parquet files and a log: Delta, Iceberg

`sink_factory` makes the sink of each pipeline from its specification (`spec`).
"""
