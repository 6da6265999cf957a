"""Asks a live server and judges what comes: requests of one protocol, plain and streamed, and the linter's rules.

`client` sends a request and notes when each piece arrives, `asks` has the requests, `live_rules` the rules that only
show on the wire, and `judge` puts them together.
"""
