"""Tables that people edit; each is the YAML document of one ZooKeeper node.

From the node to a table
    A person or a tool writes YAML into the node (``node``: compare-and-set, keeping unknown keys).
    Processes that need the table watch the node (``node_watch``, on the thread of ``watcher``),
    read it strictly (``document``) and convert it by the node's own ``table_of``.

Guarantees
    * A table is a function of the node's bytes: every process reads the same one.
    * If the bytes cannot be read, the node is missing or ZooKeeper does not answer, the last good
      table stays in force, and an error is logged.
"""
