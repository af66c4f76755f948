"""A page in this process, from its lease to its end: what every other room speaks of."""
