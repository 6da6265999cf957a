"""Run a `trilogue` command at another time: `python -m tests.earlier.clock SECONDS COMMAND …`.

SECONDS are added to the clock. What an earlier version has stored is often valid for a while only, such as a session of
the console for twelve hours, and tests have to find it years later.
"""

from __future__ import annotations

import runpy
import sys
import time
from unittest.mock import patch


def main() -> None:
    """Become the command."""
    shift = float(sys.argv[1])
    now, now_ns = time.time, time.time_ns
    sys.argv = ["trilogue", *sys.argv[2:]]
    with patch.multiple(time, time=lambda: now() + shift, time_ns=lambda: now_ns() + int(shift * 1e9)):
        runpy.run_module("trilogue", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
