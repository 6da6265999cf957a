"""The command line: `trilogue convert`, `trilogue collect`, `trilogue lint`, `trilogue losses`."""

from trilogue.cli.app import main

__all__ = ["main"]
