"""What sessions of agents read from the prompt cache, as a table in Markdown: `python -m tests.cache_report`.

Each session is played at the client's own vendor (ideal) and through a real gateway to an upstream with simulated
caches (`tests/caches/vendors.py`). A row is the worst of the sessions and numbers of accounts of a client and an
upstream. Ends with status 1 if a row reads less than 95 % of its ideal.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tests.caches.report import AIM, CLIENTS, SESSIONS, UPSTREAMS, Case, Row, cases, measured, table, worst
from tests.caches.running import world

_FAMILIES = {"anthropic": "Messages", "glm": "Messages", "openai": "Responses", "vllm-responses": "Responses"}


def main() -> int:
    """Measure what the options choose, print the table, and return the exit status."""
    chosen = _options()

    def wanted(case: Case) -> bool:
        texts = (chosen.client, case.client), (chosen.upstream, case.upstream), (chosen.session, case.session)
        return all(text.lower() in name.lower() for text, name in texts)

    found = cases(wanted)
    if not found:
        print("nothing matches these options", file=sys.stderr)
        return 2
    rows: list[Row] = []
    for client in dict.fromkeys(case.client for case in found):
        with tempfile.TemporaryDirectory(prefix="trilogue-caches-") as folder, world(Path(folder)) as played:
            for row in measured(played, [case for case in found if case.client == client]):
                rows.append(row)
                _progress(len(rows), len(found), row)
    print(file=sys.stderr)
    if not chosen.all:
        rows = worst(rows, lambda row: (row.client, _family(row) if chosen.short else row.upstream))
    print(table(rows))
    bad = [row for row in rows if not row.good]
    if bad:
        print(f"{len(bad)} of {len(rows)} rows read less than {100 * AIM:.0f} % of their ideal", file=sys.stderr)
    return 1 if bad else 0


def _family(row: Row) -> str:
    return _FAMILIES.get(row.upstream.partition("/")[0], "Chat")


def _progress(done: int, total: int, row: Row) -> None:
    if sys.stderr.isatty() or done % 20 == 0:
        text = f"{done}/{total} {row.client} to {row.upstream}"
        print(
            f"\r{text:<90}" if sys.stderr.isatty() else text, end="" if sys.stderr.isatty() else "\n", file=sys.stderr
        )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.cache_report", description=__doc__)
    parser.add_argument("--client", default="", help=f"only clients with this in their name: {', '.join(CLIENTS)}")
    parser.add_argument("--upstream", default="", help=f"only upstreams with this: {', '.join(UPSTREAMS)}")
    parser.add_argument("--session", default="", help=f"only sessions with this: {', '.join(SESSIONS)}")
    parser.add_argument("--all", action="store_true", help="print every session, and not the worst only")
    parser.add_argument("--short", action="store_true", help="one row per client and upstream protocol")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
