"""All outbound I/O: connections to upstreams, TLS and proxies.

`Transport` is the interface, and `HttpTransport` sends requests over real networks. `transport` keeps the connections,
`dial` and `tunnel` open them, `connection` and `exchange` read the responses. Nothing here knows protocols, accounts or
retries.
"""
