"""Translation inside the client's process: HTTP transports between an official SDK and any upstream.

`upstream` says where requests go, `bridge` what is sent and what the SDK gets; neither does I/O. `clients` connects
them to `httpx2` or `httpx`.
"""
