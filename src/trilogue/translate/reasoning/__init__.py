"""Reasoning on its way between protocols: sealed for the client, opened on its return, shown, or removed.

How a protocol writes reasoning is in its package; this changes neutral blocks only.
"""
