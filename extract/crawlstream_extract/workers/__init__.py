"""Code that meets pages of strangers, in processes of its own.

``job``       the work that workers do: a callable named by the caller, and how its answers are read
``frames``    messages between a process and its workers
``child``     the worker: ``python -m crawlstream_extract.workers.child``
``worker``    the parent's end of one worker
``pool``      several of them, for batches; the dead and the hung are replaced
``queue``     several of them, for callers that have one value each
``tether``    a child process that ends with its parent, for all packages that start one

A worker that dies or hangs is killed and replaced. No worker outlives its parent.
"""
