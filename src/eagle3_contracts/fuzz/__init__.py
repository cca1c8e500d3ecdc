"""Fuzzing: Hypothesis draws integrations, SGLang judges them, properties say what must hold.

An example is a built-in subject with a few :mod:`~eagle3_contracts.fuzz.changes`: its own class at
another depth, with other ids, widths, keys or flags. Changes that keep an integration right must
leave every contract whole; one that breaks it must be refused, at the cheapest tier that can see
it. Needs the optional package hypothesis.
"""
