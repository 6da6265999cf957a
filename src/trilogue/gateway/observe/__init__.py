"""Observers of requests: what they get and when, and the record of a request.

The access log, metrics, usage and capture subscribe here. Nothing here changes a request or a response.
"""
