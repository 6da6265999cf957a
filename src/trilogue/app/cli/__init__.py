"""The command line: `app` lists the commands, the other modules hold them, and `files` reads their input.

Nothing here translates, serves or decides: the commands call the library and the gateway, and print. `bare` replaces
`app` where click is not installed.
"""

try:
    from trilogue.app.cli.app import main
except ModuleNotFoundError as error:
    if error.name != "click":
        raise
    from trilogue.app.cli.bare import main

__all__ = ["main"]
