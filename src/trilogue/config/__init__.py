"""The configuration file: its types, reading it, checking it, and the secrets that it names.

Reads a YAML file and the environment. Returns a `Config` in which every secret is resolved and every default is filled
in, or raises a `ConfigError` that lists all problems.
"""
