"""From the client's HTTP request to the request that goes upstream: admission, routing, translation, learned changes.

What comes back is handled in `gateway.response`.
"""
