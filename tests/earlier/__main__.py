"""Write the state folder of the version of the sources: `python -m tests.earlier --write`.

It is kept next to the folders of earlier versions, and `tests/earlier/test_earlier.py` reads it from then on. Without
`--write`, the versions whose folders are kept are printed. Never write the folder of a version that is out: its files
are what users have.
"""

from __future__ import annotations

import argparse

from tests.earlier.folders import versions
from tests.earlier.writing import write
from trilogue import __version__


def main() -> None:
    """Do what the arguments say."""
    parser = argparse.ArgumentParser(prog="python -m tests.earlier", description=__doc__.partition("\n")[0])
    parser.add_argument("--write", action="store_true", help="write the folder of this version")
    print(write(__version__) if parser.parse_args().write else "\n".join(versions()))


if __name__ == "__main__":
    main()
