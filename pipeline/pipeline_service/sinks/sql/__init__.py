"""PostgreSQL and SQLite: one transaction for what a pipeline writes and how far it has come.

``database``  what is asked of either: transactions, and errors by what is done about them
``postgres``  PostgreSQL, by psycopg
``sqlite``    SQLite, of the standard library
``store``     notes in a table of theirs, and an effect in the same transaction
``table``     the effect of rows: a table of pages, or of items
"""
