"""Bands that are too long for memory: their middle is on the shelf.

A *band* that has become long is put in parts: its *head*, which is leased from, *chunks*, and its
*tail*, which new pages are appended to. A chunk is some hundred entries, compressed
(`codec.chunks`). It lies in Redis itself or on a server of its own, the *shelf* (`shelf`). A
redis-monitor carries chunks (`stocking`): `shelve` says what is to be done, `shelved` and
`restocked` let it take effect.

Memory and shelf are two servers, so each step is such that a death behind it leaves nothing undone:
a chunk is on the shelf before its entries leave memory, and is deleted there an hour after they are
back. The entries leave only if they are still those that were written. A chunk whose band was given
up, or that nobody came to use, is deleted by its name; no server is searched.
"""
