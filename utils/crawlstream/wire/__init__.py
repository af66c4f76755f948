"""Records to values and back; no other package of the main path speaks JSON.

The life of a record
    A request comes in as bytes: ``strict`` makes one object of them, ``requests`` finds the first
    kind whose schema it fits (``schemas``, with ``compiled`` for speed), ``seeds`` checks what no
    schema can say. What comes out is a value of ``model.request``, or an ``InvalidRequest`` with a
    reason; ``rejects`` writes that down. ``stored`` keeps entries and profiles in Redis. What goes
    back to clients is written by ``results``, ``replies`` (with ``stats``) and ``events``.

What is always true
    * Bytes from outside do nothing but become a value or a refusal, in time linear in their length.
    * Every value can be written, whatever a page or a client put into it.
    * A key that clients know is never removed and never changes its type; docs/wire.md lists them.
"""
