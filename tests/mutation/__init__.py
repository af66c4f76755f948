"""One small change of the Lua at a time: the tests of the frontier must turn red.

``mutants`` finds the places, ``plugin`` puts one change in place of the right text inside a run of
the tests, ``__main__`` runs many and says which survived. ``survivors.toml`` argues for those that
do, one by one. It takes some ten seconds a mutant:

    PYTHONPATH=tests .venv/bin/python -m mutation --most 200 --json mutants.json
"""
