"""`python -m trilogue` is the `trilogue` command."""

from trilogue.cli import main

main()
