"""Mutation tests of the Lua: after each small change, a test of the frontier must fail.

``mutants`` finds the places, ``plugin`` puts one change in place of the right text inside a run of
the tests, ``__main__`` runs many and says which survived. ``survivors.toml`` argues for those that
do, one by one. It takes some ten seconds a mutant:

    PYTHONPATH=tests .venv/bin/python -m mutation --most 200 --json mutants.json
"""
