"""PostgreSQL and SQLite: one transaction for the rows of a pipeline and its position.

``database``       interface of both: transactions, and errors by their remedy
``postgres``       PostgreSQL, by psycopg
``sqlite``         SQLite, of the standard library
``store``          notes in a table of theirs, and an effect in their transaction
``table``          the effect of rows: a table of pages, or of items
``payload_index``  payloads that WARC files hold
"""
