"""The command line: `app` lists the commands, the other modules hold them, and `files` reads their input.

Nothing here translates, serves or decides: the commands call the library and the gateway, and print.
"""

from trilogue.cli.app import main

__all__ = ["main"]
