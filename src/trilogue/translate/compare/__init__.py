"""Comparison by meaning: two requests, responses or streams of any protocols, through the neutral model.

It does no I/O. `tree` turns neutral values into plain data, `differences` compares two such trees, `detect` finds out
what a document is, and `documents` puts the three together.
"""
