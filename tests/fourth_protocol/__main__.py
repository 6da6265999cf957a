"""Run the `trilogue` command with the fourth protocol: `python -m tests.fourth_protocol serve`."""

from tests.fourth_protocol import CODEC
from trilogue.__main__ import main
from trilogue.protocols.registry import register

register(CODEC)
main()
