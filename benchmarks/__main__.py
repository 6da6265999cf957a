"""The command line of the benchmarks (`make bench`, `make bench-quick`): compare the gateways and show the results."""

from __future__ import annotations

import argparse
import json
import signal
import sys
from pathlib import Path
from typing import NoReturn

from benchmarks import others
from benchmarks.build import NoCompiler
from benchmarks.gateways import NGINX, PAIRS, TRILOGUE, Pair, trilogue
from benchmarks.interpreter import NoInterpreter, chosen
from benchmarks.page import DATA, PICTURE, page
from benchmarks.paths import CACHE, ROOT
from benchmarks.peers import NAMES as PEER_NAMES
from benchmarks.plan import Progress
from benchmarks.plot import picture
from benchmarks.results import Results
from benchmarks.rounds import FULL, QUICK, replace_rounds
from benchmarks.run import RunOptions, run
from benchmarks.tables import all_tables, text
from benchmarks.targets import LITELLM
from benchmarks.tools import ToolFailed

EPILOG = """\
examples:
  python -m benchmarks --quick                           everyday: Trilogue and nginx, under two minutes
  python -m benchmarks --gateways trilogue,nginx         everything, but no other gateways
  python -m benchmarks --quick --pairs 'chat>messages'   one pair
  python -m benchmarks --python /usr/bin/python3         Python gateways under another interpreter
  python -m benchmarks --docs                            everything, and write docs/performance.*

Gateways that are not installed are downloaded into .bench/ if possible, and left out with a notice otherwise. With
another interpreter, an environment for it is installed there too: Trilogue's dependencies from requirements.lock, and
LiteLLM's. How a Python was built matters: one without profile-guided optimization, pyenv's default, costs a quarter
more CPU than Debian's. Use the Python that you would run the gateway with.

Every figure is the median over rounds. Each round measures all pairs, with nginx in between; the other gateways take
part in the first rounds only. Ratios compare with nginx just before and after. For stable figures, run nothing else at
the same time: with two cores, one is for the gateway and one for the tools, which poll instead of sleeping.
"""
NAMES = (NGINX, TRILOGUE, *(name for name in PEER_NAMES if name != NGINX))


def main() -> None:
    """Parse the options, run the benchmarks, and show or write the results."""
    options = parser().parse_args()
    signal.signal(signal.SIGTERM, _interrupted)
    progress = Progress(sys.stderr)
    try:
        results = run(run_options(options, progress), progress)
    except (NoCompiler, NoInterpreter, ToolFailed) as problem:
        raise SystemExit(f"benchmarks: {problem}") from problem
    except KeyboardInterrupt:
        raise SystemExit("benchmarks: interrupted; everything that was started has been ended") from None
    show(results)
    write(results, options.out)
    print(f"\nraw values, plot and page: {options.out}")
    if options.docs:
        write(results, ROOT / "docs", "performance.json")
    if options.check and any(target.met is False for target in results.targets()):
        raise SystemExit(1)


def _interrupted(*_: object) -> NoReturn:
    raise KeyboardInterrupt


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    found = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Compare Trilogue with other gateways, on this machine and over loopback only.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = found.add_argument
    add("--quick", action="store_true", help="under two minutes: one round, only nginx and Trilogue, no growth")
    add(
        "--gateways",
        type=gateway_names,
        metavar="NAMES",
        help=f"any of {', '.join(NAMES)}; default: all, with --quick nginx and trilogue",
    )
    add(
        "--pairs",
        type=pair_names,
        default=PAIRS,
        metavar="PAIRS",
        help="client>upstream, such as 'chat>messages,chat>chat' (in quotes)",
    )
    add(
        "--rounds",
        type=int,
        metavar="N",
        help=f"default: {FULL.rounds} ({FULL.others} for other gateways), with --quick {QUICK.rounds}",
    )
    add(
        "--python",
        metavar="PATH",
        help="the interpreter for the Python gateways, Trilogue and LiteLLM; default: the one that runs the benchmark",
    )
    add("--no-growth", action="store_true", help="do not measure how costs grow with sizes")
    add("--no-observers", action="store_true", help="do not measure what observers of requests cost")
    add(
        "--out",
        type=Path,
        default=CACHE / "results",
        metavar="FOLDER",
        help="where to write results.json, performance.svg and .md",
    )
    add("--docs", action="store_true", help="also write docs/performance.md, .svg and .json")
    add("--check", action="store_true", help="exit with status 1 if a target is missed")
    return found


def gateway_names(written: str) -> tuple[str, ...]:
    """Parse names of gateways, separated by commas."""
    names = tuple(name.strip() for name in written.split(",") if name.strip())
    known = {name.lower(): name for name in NAMES}
    unknown = [name for name in names if name.lower() not in known]
    if unknown or not names:
        raise argparse.ArgumentTypeError(f"{', '.join(unknown) or 'nothing'}: choose from {', '.join(NAMES)}")
    return tuple(known[name.lower()] for name in names)


def pair_names(written: str) -> tuple[Pair, ...]:
    """Parse names of pairs, separated by commas."""
    known = {pair.name: pair for pair in PAIRS}
    names = [name.strip() for name in written.split(",") if name.strip()]
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        raise argparse.ArgumentTypeError(f"{', '.join(unknown) or 'nothing'}: choose from {', '.join(known)}")
    return tuple(known[name] for name in names)


def run_options(options: argparse.Namespace, progress: Progress) -> RunOptions:
    """Return what a run has to do according to the options."""
    settings = replace_rounds(QUICK if options.quick else FULL, options.rounds)
    names = options.gateways or ((NGINX, TRILOGUE) if options.quick else NAMES)
    python = chosen(options.python, progress)
    found, notes = others.prepare(names, python, progress)
    own = [trilogue(python.program)] if TRILOGUE in names else []
    return RunOptions(
        gateways=sorted([*found, *own], key=lambda gateway: NAMES.index(gateway.name)),
        notes=[*filter(None, [python.notice]), *notes],
        pairs=frozenset(options.pairs),
        settings=settings,
        observe=TRILOGUE in names and not options.no_observers,
        grow=not options.quick and not options.no_growth and TRILOGUE in names,
        footprint_pairs=frozenset({"chat>chat"}) if options.quick else None,
        folder=CACHE / "run",
        python=python,
        imports=lambda: others.import_ms(3 if options.quick else 10, python, LITELLM in names),
    )


def show(results: Results) -> None:
    """Print the tables of a run."""
    for table in all_tables(results):
        print(f"\n{text(table)}")
    notes = [*results.notes, *(results.growth.notes if results.growth else ())]
    for note in notes:
        print(f"\nnote: {note}")


def write(results: Results, folder: Path, data: str = "results.json") -> None:
    """Write the page, the chart and the raw data of a run."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / data).write_text(json.dumps(results.as_json(), indent=1) + "\n")
    (folder / PICTURE).write_text(picture(results))
    (folder / "performance.md").write_text(page(results) if data == DATA else page(results).replace(DATA, data))


if __name__ == "__main__":
    main()
