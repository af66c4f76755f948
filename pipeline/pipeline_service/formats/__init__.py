"""Pages as files that other programs read: JSON lines, WARC, Parquet.

``files``     the formats by file extension, and a writer of each
``jsonl``     the unchanged records, one per line; plain, gzip or zstd
``warc``      WARC 1.1, with a gzip member per record
``parquet``   one row per page, with the columns of ``columns``

Equal pages in equal order make equal bytes, so that a file that is written again after a crash
replaces the former one. The libraries of a format are imported when a file of it is opened.
"""
