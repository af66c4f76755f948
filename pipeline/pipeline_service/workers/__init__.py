"""Stages in processes of their own, for code of users meets pages of strangers.

``frames``    messages between the pipeline and a worker
``child``     the worker: ``python -m pipeline_service.workers.child``
``worker``    the pipeline's end of one worker
``pool``      several of them; the dead and the hung are replaced
``inside``    the same stages in a thread of the pipeline itself, unguarded

A worker that dies or hangs is killed and replaced, and what it had at hand is done one by one: the
record that three workers have died of is undelivered. Order and offsets stay with the pipeline, and
no worker outlives it.
"""
