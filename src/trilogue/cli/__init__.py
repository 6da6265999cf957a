"""The command line. `app.py` lists the commands; each one has its own module. `bare.py` replaces it without click."""

try:
    from trilogue.cli.app import main
except ModuleNotFoundError as error:
    if error.name != "click":
        raise
    from trilogue.cli.bare import main

__all__ = ["main"]
