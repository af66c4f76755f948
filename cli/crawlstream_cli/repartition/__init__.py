"""``crawlstream repartition``: move the frontier into one of another number of partitions."""
