"""Where the frontier has several partitions: see docs/partitions.md.

`intake` enrolls seeds at the homes of their crawls and has partitions take them. `links` applies
what partitions found for each other. `homes` tells a home that has gone back what Kafka knows.
`positions` says where the reading of requests begins. A partition that is away or full is left
behind (`leaving`), and `catch_up` has it read later what the others have read.
"""
