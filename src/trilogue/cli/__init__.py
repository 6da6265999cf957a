"""The command line. `app.py` lists the commands; each one has its own module."""

from trilogue.cli.app import main

__all__ = ["main"]
