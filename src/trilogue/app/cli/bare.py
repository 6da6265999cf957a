"""`trilogue convert` where click is not installed: the library alone needs only msgspec and cryptography.

The options are those of `app/cli/convert.py`. Every other command names what to install.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from trilogue import Protocol, TrilogueError, __version__
from trilogue.app.cli.conversion import FAILED_STREAM, KINDS, Conversion, run_conversion
from trilogue.model import Severity

BAD_INPUT = 2
_MISSING = "click is not installed, so only `trilogue convert` works; `pip install trilogue` installs all"


def main() -> None:
    """Run `trilogue convert` and exit; other commands end with what is missing."""
    sys.exit(_run(sys.argv[1:]))


def _run(arguments: list[str]) -> int:
    if arguments[:1] != ["convert"]:
        if arguments == ["--version"]:
            print(f"trilogue, version {__version__}")
            return 0
        print(f"trilogue: {_MISSING}", file=sys.stderr)
        return BAD_INPUT
    given = _parser().parse_args(arguments[1:])
    try:
        return _convert(given)
    except (TrilogueError, OSError) as error:
        print(f"trilogue: {error}", file=sys.stderr)
        return BAD_INPUT


def _convert(given: argparse.Namespace) -> int:
    converted = run_conversion(
        Conversion(
            path=given.file,
            data=_read(given.file),
            source=given.source,
            target=given.target,
            kind=given.kind,
            strict=given.strict_from if given.strict else None,
            repair=given.repair,
            request=given.request,
            read=_read,
        )
    )
    sys.stdout.buffer.write(converted.out)
    for loss in converted.losses:
        print(f"lost: {loss}", file=sys.stderr)
    if converted.failure is None:
        return 0
    print(f"trilogue: the stream ended in an error: {converted.failure}", file=sys.stderr)
    return FAILED_STREAM


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="trilogue convert")
    parser.add_argument("file", nargs="?", default="-")
    parser.add_argument("--from", dest="source", type=Protocol.parse, required=True)
    parser.add_argument("--to", dest="target", type=Protocol.parse, required=True)
    parser.add_argument("--kind", choices=KINDS, default="auto")
    parser.add_argument("--strict", action="store_true")
    parser.add_argument("--strict-from", type=Severity, choices=list(Severity), default=Severity.DEGRADED)
    parser.add_argument("--repair", action="store_true")
    parser.add_argument("--request", metavar="FILE")
    return parser


def _read(path: str) -> bytes:
    return sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
