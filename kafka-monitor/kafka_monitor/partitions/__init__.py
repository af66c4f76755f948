"""Intake for a frontier of several partitions: see docs/partitions.md.

`intake` enrolls seeds at the homes of their crawls and has partitions take them. `links` applies
links that partitions found for each other. `homes` reminds a home that has gone back of the records
in Kafka. `positions` returns where the reading of requests begins. `leaving` leaves an unavailable
or full partition behind, and `catch_up` has it read later the records that the others have read.
"""
