"""What is decided for one request: its record, the retry budget, and what a response has cost.

Nothing here sends anything; `gateway.response.attempts` does.
"""
