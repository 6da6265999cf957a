"""Tools on their way between protocols: names, ids, free-text input, tools that clients run themselves, hosted tools.

How a protocol writes a tool is in its package; this changes neutral blocks only.
"""
