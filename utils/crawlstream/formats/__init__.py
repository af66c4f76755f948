"""Pages as files that other programs read: JSON lines, WARC, Parquet.

``files``     the formats, by the ending of a file's name, and a writer of each
``jsonl``     the records as they are, one a line; plain, gzip or zstd
``warc``      WARC 1.1, a gzip member a record
``parquet``   one row a page, with the columns of ``columns``
``output``    a file that has its name only when it is whole
``memory``    one that is made in memory

The same pages in the same order make the same bytes, so that a file that has to be made again after
a crash replaces the former one. The libraries of a format are imported when a file of it is opened.
"""
