"""Write what is known of vendors into the pages that list them.

python -m tests.vendor_pages           # say which pages are out of date
python -m tests.vendor_pages --write   # write them
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterator
from itertools import groupby
from pathlib import Path

from trilogue.app.cli.models import models_table
from trilogue.app.cli.presets import presets_table
from trilogue.prices import prices_table
from trilogue.protocols.registry import CODECS
from trilogue.routing.routes import FAMILIES, ProviderFamily
from trilogue.vendors.profile import UNKNOWN_VENDOR
from trilogue.vendors.table import PROFILED

DOCS = Path(__file__).resolve().parent.parent / "docs"
COMMAND = "python -m tests.vendor_pages --write"


def families_list() -> str:
    """Return the list of well-known model names, with the providers that they go to."""
    groups = [(names, list(found)) for names, found in groupby(FAMILIES, lambda family: family.names)]
    return "\n".join(f"- {_goes_to(names, families)}" for names, families in groups)


def _goes_to(names: tuple[str, ...], families: list[ProviderFamily]) -> str:
    labels = ", ".join(f"`{family.label}`" for family in families)
    providers = " or ".join(f"`{name}`" for name in names)
    spoken = " or ".join(
        f"`{protocol.value}`"
        for protocol, codec in CODECS.items()
        if codec.endpoint.only_vendor and codec.endpoint.vendor in names
    )
    otherwise = f", otherwise to the first that speaks {spoken}" if spoken else ""
    return f"{labels} {'goes' if len(families) == 1 else 'go'} to a provider named {providers}{otherwise}."


def vendors_list() -> str:
    """Return the values of the setting `vendor`."""
    return ", ".join(sorted([*PROFILED, UNKNOWN_VENDOR]))


PARTS: tuple[tuple[str, str, Callable[[], str]], ...] = (
    ("models.md", "models", models_table),
    ("prices.md", "prices", prices_table),
    ("upstreams/presets.md", "presets", presets_table),
    ("configuration.md", "families", families_list),
)
"""pages below docs, the name of a part between two markers, and its text"""

_VENDOR_ROW = re.compile(r"(?<=^\| `providers\.NAME\.vendor` \|)(.*)\([^()]*\) \|$", re.MULTILINE)


def out_of_date() -> Iterator[tuple[Path, str]]:
    """Yield the pages that differ from the source, with their right text."""
    for page in sorted({name for name, _, _ in PARTS}):
        path = DOCS / page
        now = text = path.read_text("utf-8")
        for name, part, written in PARTS:
            if name == page:
                text = _with_part(text, part, written())
        text = _VENDOR_ROW.sub(lambda found: f"{found[1]}({vendors_list()}) |", text)
        if text != now:
            yield path, text


def _with_part(page: str, name: str, text: str) -> str:
    """Return a page with this text between the markers of a part, which may be indented."""
    marked = re.compile(rf"^( *)<!-- {name} -->\n.*?^ *<!-- /{name} -->$", re.MULTILINE | re.DOTALL)
    found = marked.search(page)
    assert found, f"no part {name}"
    lines = [f"<!-- {name} -->", *text.split("\n"), f"<!-- /{name} -->"]
    return page[: found.start()] + "\n".join(found[1] + line if line else line for line in lines) + page[found.end() :]


def main() -> None:
    """Do what the arguments say."""
    parser = argparse.ArgumentParser(prog="python -m tests.vendor_pages", description=__doc__.partition("\n")[0])
    parser.add_argument("--write", action="store_true", help="write the pages")
    write = parser.parse_args().write
    old = list(out_of_date())
    for path, text in old if write else ():
        path.write_text(text, "utf-8")
    if old and not write:
        sys.exit(f"{', '.join(path.name for path, _ in old)} out of date: {COMMAND}")


if __name__ == "__main__":
    main()
