"""The command line: `app` lists the commands, and each has a module of its name.

What commands share: `files` reads their input, `configured`, `stores` and `admin_client` find what they work on, and
`tables` and `verdicts` make their output. Nothing here translates, serves or decides: the commands call the library and
the gateway, and print. `bare` replaces `app` where click is not installed.
"""

try:
    from trilogue.app.cli.app import main
except ModuleNotFoundError as error:
    if error.name != "click":
        raise
    from trilogue.app.cli.bare import main

__all__ = ["main"]
