"""The processes of a gateway: a worker with its sockets and signals, and the supervisor of several workers.

What a worker serves is in `gateway.endpoints`.
"""
