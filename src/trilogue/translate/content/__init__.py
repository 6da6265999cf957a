"""Turns and their content on the way between protocols: histories, continued responses, images, stop sequences, usage.

Tools and reasoning have their own packages.
"""
