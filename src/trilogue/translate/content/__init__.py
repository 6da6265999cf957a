"""Turns and their content on the way between protocols: history, repairs, images, stop sequences, usage.

Tools and reasoning have their own packages.
"""
