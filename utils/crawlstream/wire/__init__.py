"""Convert records to values and back; no other package of the main path uses JSON.

From a record to a reply
    A request arrives as bytes: ``strict`` parses them to one object, ``requests`` finds the first
    kind whose schema it fits (``schemas``, with ``compiled`` for speed), ``crawl_request``
    checks rules that a schema cannot express. The result is a value of ``model.request``, or an
    ``InvalidRequest`` with a reason, which ``rejects`` encodes. ``stored`` encodes entries and
    profiles for Redis. ``results``, ``replies`` (with ``stats_reply``) and ``events`` encode the
    records for clients.

Guarantees
    * Bytes from outside only become a value or a refusal, in time linear in their length.
    * Every value can be encoded, with any content from a page or a client.
    * A key that clients know is never removed and never changes its type; docs/wire.md lists them.
"""
