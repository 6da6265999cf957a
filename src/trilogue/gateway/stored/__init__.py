"""What the gateway remembers for clients of protocols that can continue a response: what a request refers to, what is
kept of its response, and the objects of the API that shows it.

How it is stored is in `state.responses`. Endpoints are in `gateway.endpoints`.
"""
