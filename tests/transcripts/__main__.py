"""Print a hash of what a gateway does, per case and in all, to show that a change of structure changed no behaviour.

    python -m tests.transcripts [FILE] [--only PATTERN] [--write]

A case is one or more requests to a real gateway. Its transcript has all that goes out of the gateway: responses, what
the upstream gets, lines of the log, changes of metrics and usage, and captures. FILE gets the transcripts, so that two
runs can be compared with `diff`. PATTERN is a part of the names of cases; groups without such a case are not run.
--write replaces the hashes in `recorded.txt`, with which a test compares.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from tests.transcripts.normalised import digest
from tests.transcripts.run import RECORDED, lines_of, transcripts


def main() -> None:
    """Run the cases and print their hashes."""
    parser = argparse.ArgumentParser(prog="python -m tests.transcripts")
    parser.add_argument("file", nargs="?", type=Path, help="gets the transcripts")
    parser.add_argument("--only", default="", metavar="PATTERN", help="cases with this in their name")
    parser.add_argument("--write", action="store_true", help=f"replace {RECORDED.name}")
    given = parser.parse_args()
    if given.write and given.only:
        parser.error("--write needs all cases")
    found: dict[str, str] = {}
    for name, text in transcripts(given.only):
        found[name] = text
        print(f"{name}  {digest(text)}", flush=True)
    hashes = lines_of(found)
    print(f"{len(found)} cases, hash {digest(hashes)}")
    if given.file is not None:
        given.file.write_text("".join(f"=== {name}\n{text}\n\n" for name, text in found.items()), "utf-8")
    if given.write:
        RECORDED.write_text(hashes, "utf-8")


if __name__ == "__main__":
    main()
