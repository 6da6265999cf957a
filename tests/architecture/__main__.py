"""Write the parts of docs/architecture.md that repeat the code, or print what requests go through.

python -m tests.architecture           # say which parts of the page are out of date
python -m tests.architecture --write   # write them
python -m tests.architecture --trace   # print the files of each request and the ways back, with all calls: --calls
"""

from __future__ import annotations

import argparse
import sys

from tests.architecture import walks
from tests.architecture.calls import GATEWAY
from tests.architecture.page import COMMAND, PAGE, from_imports, part, with_parts
from tests.architecture.requests import WALKS, Case


def main() -> None:
    """Do what the arguments say."""
    parser = argparse.ArgumentParser(prog="python -m tests.architecture", description=__doc__.partition("\n")[0])
    parser.add_argument("--write", action="store_true", help="write the generated parts of the page")
    parser.add_argument("--trace", action="store_true", help="print the files of each request, and the ways back")
    parser.add_argument("--calls", action="store_true", help="also print all calls inside the gateway")
    asked = parser.parse_args()
    if asked.trace or asked.calls:
        print(walks.text())
    if asked.calls:
        print("\n\n".join(map(calls, WALKS)))
    if asked.trace or asked.calls:
        return
    page = PAGE.read_text("utf-8")
    parts = {**from_imports(), "walks": walks.text()}
    if asked.write:
        PAGE.write_text(with_parts(page, parts), "utf-8")
        return
    old = [name for name, text in parts.items() if part(page, name) != text]
    if old:
        sys.exit(f"{PAGE.name}: {', '.join(old)} out of date: {COMMAND}")


def calls(case: Case) -> str:
    """Return all calls inside of the gateway while a request is handled."""
    inside = [call for call in walks.walked(case.title) if call.place[0].startswith(GATEWAY)]
    return "\n".join([case.title, *[f"{file}: {name}  < {caller}" for (file, name), caller in inside]])


if __name__ == "__main__":
    main()
