"""Where the frontier has several partitions: see docs/partitions.md.

`intake` enrolls seeds at the homes of their crawls and has partitions take them. `links` applies
what partitions found for each other. `homes` tells a home that has gone back what Kafka knows.
`positions` says where the reading of requests begins.
"""
