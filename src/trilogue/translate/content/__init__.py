"""Turns and their content on the way between protocols: history, repairs, images, stop sequences, usage, native extras.

Tools and reasoning have their own packages.
"""
