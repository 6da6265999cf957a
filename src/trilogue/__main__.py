"""Run the `trilogue` command as `python -m trilogue`."""

from trilogue.cli import main

main()
