"""The shared core of crawlstream, layer by layer, lowest first.

``called``    how the command is called here
``errors``    errors, and the reaction to each
``tasks``     helpers for asyncio tasks: run them concurrently, wait for them, end them
``retry``     retries with growing pauses
``model``     frozen values: requests, entries, results, events, rules; no input or output
``wire``      values as bytes and back; the only JSON of the project
``keys``      all Redis keys and Kafka topic names
``zoo``       tables that people edit, each a ZooKeeper node
``throttle``  the throttle rules (ZooKeeper)
``egress``    the proxy pools
``stats``     bounded counters
``bus``       records in and out (Kafka)
``store``     whole objects in a folder of any file system
``formats``   pages as files: JSON lines, WARC, Parquet
``runs``      the runs of a crawl that Kafka stores
``boot``      start of a process: settings, logs, clients, signals, health
``plugins``   base classes for a user's kinds of request and actions

A module imports only from the layers above its own line; ``./crawlstream check`` enforces that.
"""

__version__ = "0.1.0"
