"""Observers of requests: what they get and when, the record of a request, the access log, and recent requests.

Metrics, usage and capture subscribe here. Nothing here changes a request or a response.
"""
