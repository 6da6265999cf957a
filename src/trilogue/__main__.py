"""The `trilogue` command: the installed script calls `main`, and `python -m trilogue` is the same.

Scripts in existing environments import this module by name, so it stays where it is when the command line moves.
"""

from trilogue.app.cli import main

__all__ = ["main"]

if __name__ == "__main__":
    main()
