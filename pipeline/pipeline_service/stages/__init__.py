"""Stages: functions of a record that decide whether it is wanted, and what is stored of it.

``spec``       a stage as the file of the pipelines describes it
``draft``      a row in the making, and how a stage ends a page's way
``page``       what a stage is given: the result, typed, with its text and its tree
``chain``      the stages of a pipeline, one after the other, over one page
``texts``      the text that a stage reads
``filter``, ``metadata``, ``maintext``, ``markdown``, ``documents``, ``language``, ``minhash``,
``signature``, ``fields``, ``clean``, ``validate``, ``function``   one kind of stage each

They run in processes of their own (`workers`), or in a thread. They may run twice for a page, so
what they make follows from the page alone.
"""
