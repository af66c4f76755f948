"""The shared core of crawlstream, layer by layer, lowest first.

``errors``    what can go wrong, and what is then done
``tasks``     how tasks of asyncio run beside others, and how they end
``tether``    a child process that ends with its parent
``retry``     growing pauses, and services that are waited for
``model``     frozen values: requests, entries, results, events, rules; no input or output
``wire``      bytes to values and back; the only JSON of the project
``keys``      every Redis key and every Kafka topic name
``zoo``       tables that people edit, each a node of ZooKeeper
``throttle``  the rules of politeness (ZooKeeper)
``egress``    the proxy pools
``stats``     bounded counters
``bus``       records in and out (Kafka)
``store``     whole objects in a folder of any file system
``formats``   pages as files: JSON lines, WARC, Parquet
``runs``      the runs of a crawl as Kafka remembers them
``boot``      settings, logs, clients, signals, health: what every process does at its start
``plugins``   what a user's kinds of request and actions are made of

A module imports from the layers above its own line only; ``./crawlstream check`` holds that.
"""

__version__ = "0.1.0"
