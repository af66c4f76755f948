"""A memory's table in PostgreSQL or SQLite: what a transaction does to it."""
