"""Memory of pages: the state of each URL, and the time of its next visit.

    ``seen``        the news of a URL in a result, or in a page that failed
    ``known_page``  the state of a URL, and its state after news
    ``visitor``     claims pages that are due, and feeds them as seeds
    ``learning``    states of the pages of a batch, and the steps between them
    ``kept_text``, ``line_diff``  texts of pages, and what differs between them by lines
    ``page_changes``      the events for clients of changes that are found
    ``change_publisher``  publishes them
    ``sql``         its table in PostgreSQL or SQLite

Memory and position are one transaction (`sql.effect`), so a record counts once, also after a crash.
Every fetch goes through the frontier: a visit is a seed on `<prefix>.incoming`.
"""
