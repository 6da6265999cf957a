"""The processes of a gateway: one worker with its sockets and signals, and the supervisor of several.

What a worker serves is in `gateway.endpoints`.
"""
