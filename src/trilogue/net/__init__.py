"""Connections: the HTTP/1.1 and WebSocket server for clients, and the HTTP client for upstreams."""
