"""Archives of pipelines, as they are in their stores: read again, and checked.

``warc_file``        the records of a WARC file, each with its digests checked
``index_check``      an index (CDXJ) compared with the records of its file
``stored_segments``  claims of segments, and the accounts of those that are finished
``scratch``          facts about all records at once, on the disk
``archive_check``    all of it together

Nothing here uses the library that has written the files. Memory does not depend on their size.
"""
