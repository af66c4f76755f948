"""Stages in processes of their own, for code of users meets pages of strangers.

``outcomes``  plans and outcomes as messages between the pipeline and a worker
``work``      the stages in a worker
``inside``    the same stages in a thread of the pipeline itself, unguarded
``outside``   workers (`crawlstream_extract.workers`), for the pages of a pipeline

Pages that a lost worker had at hand are done one by one: the one that three workers have died of is
undelivered. Order and offsets stay with the pipeline.
"""
