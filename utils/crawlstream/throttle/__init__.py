"""The throttle rules on their way from a person's hand to the frontier.

A rule's way
    A person, a ``zookeeper`` request or any tool writes YAML into one node of ZooKeeper
    (``edit``: compare-and-set, keeping what it does not know). Every process that cares watches
    the node (``watch``), reads it strictly (``parse``) and copies the table into Redis, fenced by
    its version; there, and only there, it is applied.

What is always true
    * A table is a function of the node's bytes: every process reads the same one.
    * Doubt changes nothing: bytes that cannot be read, a missing node, a silent ZooKeeper leave
      the last good table in force, and say so in the log.
"""
