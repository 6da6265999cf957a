"""The command line. `app.py` lists the commands; each has a file of its own."""

from trilogue.cli.app import main

__all__ = ["main"]
