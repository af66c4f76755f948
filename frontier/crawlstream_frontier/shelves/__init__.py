"""The shelf: the middle of bands that are too long for memory.

A long *band* is divided into parts: its *head*, for leases, *chunks*, and its *tail*, to which new
pages are appended. A chunk has a few hundred compressed entries (`codec.chunks`). It is stored in
Redis itself or on a separate server, the *shelf* (`shelf`). A redis-monitor moves chunks
(`stocking`): `shelve` returns the work to do, `shelved` and `restocked` make it take effect.

Memory and shelf are two servers, so a process may die after any step without leaving work undone:
a chunk is on the shelf before its entries leave memory, and is deleted there an hour after they
are back. The entries leave only if they are still the written ones. A chunk that was never used,
or whose band was deleted, is deleted by its name; servers are not scanned.
"""
