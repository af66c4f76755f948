"""Results in the tables of a lake: Parquet files, and a log that says which of them count.

``table``          such a table, of any format: its position and its files change in one commit
``lake_sink``      any such table as a sink: spool, files, commit
``segment_notes``  accounts and ids of its segments, in objects next to the table
``delta``          Delta tables; imports ``deltalake``, which is an extra
``iceberg``        Iceberg tables; imports ``pyiceberg``, which is an extra
``synced_io``      how metadata of local Iceberg tables is written
``opening``        makes table, sink and notes of a pipeline
"""
