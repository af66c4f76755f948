"""Where pages end: each kind of sink keeps the position of a pipeline with its pages.

``door``     what a flow asks of a sink, and everybody else of what it keeps beside the pages
``rows``     any store of rows as a sink: the position, the account and the rows in one transaction
``kept``     what such a store, or a folder of files, says of a pipeline to others
``sql``      PostgreSQL and SQLite as such stores
``files``    JSON lines, WARC and Parquet; no transactions, claims instead

`assembly` makes the sink of each pipeline by what its file says (`spec`).
"""
