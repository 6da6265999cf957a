"""Learning from refused requests: read an upstream's error, and find the parameter to change.

`pool` remembers what was learned, and `gateway` sends the request again.
"""
