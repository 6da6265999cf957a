"""Policies at work: they are driven, their questions are answered, and their records are kept.

This room knows runs of policies and nothing of clients, upstreams or protocols.
"""
