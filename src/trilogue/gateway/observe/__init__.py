"""Observers of requests: what they are told and when, and the record of a request that they get.

The access log, metrics, usage and capture subscribe here. Nothing here changes a request or a response.
"""
