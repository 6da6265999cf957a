"""A rolling upgrade: gateways of an earlier version are replaced by this one, one after the other, under load.

    python -m tests.machines.upgrade --since v1.0          # any commit of this repository

Both versions run side by side on one database for a while. Afterwards they are rolled back in the same way.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.machines.load import CONFIG, CountingUpstream, Load, under_load, unreadable
from tests.machines.nodes import Cluster, Node, cluster
from tests.machines.settling import settled
from tests.state.responses.postgres import Server
from tests.timing import pause_for

SOURCES = Path(__file__).parents[2] / "src"
USED_SECONDS = 3.0
"""How long each mix of versions serves."""
SEAL = "seal_keys: [upgrade-test-canary-0123456789abcdef]\n"


def sources_of(commit: str, folder: Path) -> Path:
    """Return a folder with the sources of a commit."""
    archive = subprocess.run(
        [shutil.which("git") or "git", "archive", commit, "src"], cwd=SOURCES.parent, capture_output=True, check=True
    ).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as packed:
        packed.extractall(folder, filter="data")
    return folder / "src"


async def replace_all(nodes: Sequence[Node], sources: Path) -> None:
    """Restart one gateway after the other with these sources."""
    for node in nodes:
        if await asyncio.to_thread(node.stop) != 0:
            raise RuntimeError("a gateway did not stop in good order")
        node.environ["PYTHONPATH"] = str(sources)
        await asyncio.to_thread(node.start)
        await pause_for(USED_SECONDS)


async def upgrade(folder: Path, old: Path, url: str) -> tuple[list[str], list[str]]:
    """Upgrade and roll back under load. Return the figures, and what is wrong."""
    load, upstream = Load(), CountingUpstream(delay=0.01)
    async with upstream.running():
        config = f"state: {url}\n{SEAL}{CONFIG}"
        with cluster(folder, 2, config, upstream.url, {"PYTHONPATH": str(old)}) as running:
            async with under_load(running.url, load, pause=0.01):
                await pause_for(USED_SECONDS)
                await replace_all(running.nodes, SOURCES)
                await replace_all(running.nodes[:1], old)
            problems = await _checked(running, load)
            sums = await settled(url, running)
    problems += load.problems(sums, upstream)
    if (sums.output, sums.fresh) != (upstream.requests, upstream.tokens):
        problems.append(f"the ledger has {sums.output} requests, the upstream has sent {upstream.requests}")
    lost = load.sent - len(load.answered)
    if lost:
        problems.append(f"{lost} requests were lost")
    return [load.summary(), f"the ledger has {sums.output} of {upstream.requests} responses"], problems


async def _checked(running: Cluster, load: Load) -> list[str]:
    """Read every response with both versions."""
    found = []
    for node in running.nodes:
        found += [f"cannot be read: {one}" for one in await unreadable(load, [node.url])]
    return found


def main() -> None:
    """Run an upgrade and print its figures."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--since", required=True, help="the commit of the earlier version")
    asked = parser.parse_args()
    postgres = Server()
    postgres.start()
    try:
        with tempfile.TemporaryDirectory() as folder:
            old = sources_of(asked.since, Path(folder))
            lines, problems = asyncio.run(upgrade(Path(folder) / "run", old, postgres.new_database()))
    finally:
        postgres.remove()
    print("\n".join(lines))
    print("problems: " + ("; ".join(problems[:20]) or "none"))
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
