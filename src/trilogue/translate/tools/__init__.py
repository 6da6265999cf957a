"""Tools on their way between protocols: names, ids, free-text input, tools that clients run, hosted tools.

How a protocol writes a tool is in its package; this package only changes neutral blocks.
"""
