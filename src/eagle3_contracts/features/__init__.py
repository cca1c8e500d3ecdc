"""Feature dumps: the hidden states that a draft is trained on, as a tool has written them.

A dump is a directory with one file for each sample (a sequence), or one such file. It is sampled,
never loaded whole: samples are memory-mapped, and nothing in a file is ever run. What needs torch
is in :mod:`eagle3_contracts.serving.features`.
"""
