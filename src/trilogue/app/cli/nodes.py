"""`trilogue nodes`: show the nodes of the cluster, as a running gateway sees them."""

from __future__ import annotations

from typing import Any

import click
import msgspec

from trilogue.app.cli.admin_client import admin_client, admin_options
from trilogue.app.cli.tables import with_numbers

TITLES = ("node", "state", "version", "workers", "running", "requests", "load", "lag", "clock", "reported")
_LEFT = 3
"""columns of text; the others are numbers"""


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line.")
@admin_options
def nodes(path: str | None, url: str | None, as_json: bool) -> None:
    """Show the nodes of the cluster: version, load, and how quickly each learns what happens on the others.

    `clock` is how far the node's clock is off, compared with that of Redis. A node is gone if it has not reported for
    five seconds, and has left if it was stopped. The exit code is 1 if the gateway cannot reach its cluster.

    \b
    trilogue nodes
    trilogue nodes --url http://10.0.0.7:4001 --json
    """
    found = admin_client(path, url).get("/nodes")
    cluster = found["cluster"]
    if cluster is None:
        raise click.UsageError("this gateway is not part of a cluster; set `cluster` in its configuration")
    if as_json:
        for node in found["nodes"]:
            click.echo(msgspec.json.encode(node))
    else:
        click.echo(with_numbers([TITLES, *(_row(node) for node in found["nodes"])], _LEFT))
    if not cluster["connected"]:
        click.echo(f"{cluster['server']} cannot be used now: {cluster['reason']}", err=True)
        raise SystemExit(1)


def _row(node: Any) -> tuple[str, ...]:
    return (
        node["name"],
        node["state"],
        node["version"],
        f"{node['workers']}",
        f"{node['running']:,}",
        f"{node['requests']:,}",
        f"{node['load']:.2f}",
        f"{node['lag_seconds'] * 1000:,.1f} ms",
        f"{-node['clock_offset_seconds']:+,.3f} s",
        f"{node['reported_seconds_ago']:,.0f} s ago",
    )
