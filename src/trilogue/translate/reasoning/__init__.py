"""Reasoning on its way between protocols: sealed for the client, opened when it is sent back, shown, or removed.

How a protocol writes reasoning is in its package; this package only changes neutral blocks.
"""
