"""The shared core of crawlstream, layer by layer, lowest first.

``errors``    what can go wrong, and what is then done
``tasks``     how tasks of asyncio run beside others, and how they end
``model``     frozen values: requests, entries, results, events, rules; no input or output
``wire``      bytes to values and back; the only JSON of the project
``keys``      every Redis key and every Kafka topic name
``frontier``  what waits to be fetched, who holds it, who may fetch now (Redis)
``throttle``  the rules of politeness (ZooKeeper)
``bus``       records in and out (Kafka)
``stats``     bounded counters
``boot``      settings, logs, clients, signals, health: what every process does at its start
``plugins``   what a user's kinds of request and actions are made of, and their tests
``demo``      the bundled site and the guided first crawl
``cli``       the commands a person types

A module imports from the layers above its own line only; ``./crawlstream check`` holds that.
"""

__version__ = "0.1.0"
