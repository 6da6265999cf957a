"""Captures of a running gateway: which requests are captured, what is kept of them, and how they get into files.

`recording` keeps what happens to one request, `observer` decides whether it is wanted, `writer_thread` writes it, and
`worker_capture` switches all of it on and off, by the configuration or for a session that an administrator starts.
"""
