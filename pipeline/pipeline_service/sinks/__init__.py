"""Where pages end: each kind of sink keeps the position of a pipeline with its pages.

``door``     what a flow asks of a sink, and everybody else of what it keeps beside the pages
``settings`` what the file of the pipelines may say of each kind
``make``     a sink, or what it keeps, of a pipeline
``rows``     any store of rows as a sink: the position, the account and the rows in one transaction
``kept``     what such a store, or a folder of files, says of a pipeline to others
``sql``      PostgreSQL and SQLite as such stores

Files are written by `files_sink`, which has no transactions and claims instead.
"""
