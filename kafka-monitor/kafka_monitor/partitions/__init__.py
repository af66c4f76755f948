"""Intake for a frontier of several partitions: see docs/partitions.md.

`divided_intake` enrolls seeds at the coordinators of their crawls and has partitions take them.
`link_reader` applies links that partitions found for each other. `coordinators` reminds a
coordinator that has gone back of the records in Kafka. `positions` returns where the reading of
requests begins. `unavailable_partitions` leaves an unavailable or full partition behind, and
`catch_up` has it read later the records that the others have read.
"""
