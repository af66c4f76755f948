"""Tables that people edit, each the YAML document of one node of ZooKeeper.

A table's way
    A person or a tool writes YAML into the node (``node``: compare-and-set, keeping what it does
    not know). Every process that cares watches the node (``watch``, on the thread of
    ``watcher``), reads it with suspicion (``document``) and makes a table of it by the node's own
    ``table_of``.

What is always true
    * A table is a function of the node's bytes: every process reads the same one.
    * Doubt changes nothing: bytes that cannot be read, a missing node, a silent ZooKeeper leave
      the last good table in force, and say so in the log.
"""
