"""The memory of pages: what is known of each URL, and when it is to be visited again.

``seen``     what a result, or a page that failed, says of a URL
``page``     what is known of a URL, and what it is after it was heard of again
``visitor``  claims pages that are due, and feeds them as seeds
``sql``      its table in PostgreSQL or SQLite

Memory and position are one transaction (`sql.effect`), so a record counts once whoever dies.
Nothing is fetched beside the frontier: a visit is a seed on `<prefix>.incoming`.
"""
