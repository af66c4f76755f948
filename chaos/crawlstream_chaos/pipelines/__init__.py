"""Chaos with pipelines: several of them store the results of a cluster, and are struck as it is.

``described``       their file, and how their processes find a store that fails on purpose
``objects``         that store: unavailable, full, or mute when a fault makes it so
``store_reader``    reads its contents (``facts.stored``) from the disk without any process
``archive_reader``  checks WARC files, their indexes and revisits, as a player reads them
``table_reader``    does so with a table of a lake, whose log is in ``delta_log`` or ``iceberg_log``
``search_reader``   does so with a search index, by the server itself
"""
