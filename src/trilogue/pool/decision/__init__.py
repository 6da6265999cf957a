"""The attempts at one request: which target and account is next, when to give up, what it cost, and a record of it all.

Nothing here sends anything; `gateway.response.attempts` does.
"""
