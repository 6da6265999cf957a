"""`trilogue presets`: list the vendors and servers that need no address in a configuration."""

from __future__ import annotations

import click

from trilogue.app.cli.tables import aligned
from trilogue.vendors.table import PRESETS
from trilogue.vendors.vendor import Preset


@click.command()
@click.option("--markdown", is_flag=True, help="Print the list as Markdown, as in the documentation.")
def presets(markdown: bool) -> None:
    """List the providers that are known by name: what each speaks, its key and its address.

    `providers: {deepseek: {}}` is a complete configuration, if the variable is set.
    """
    click.echo(presets_table() if markdown else presets_text())


def presets_text() -> str:
    """Return the list for a terminal."""
    rows = [(one.name, _protocols(one), _key(one), " ".join(dict.fromkeys(one.urls.values()))) for one in _all()]
    return aligned(rows)


def presets_table() -> str:
    """Return the list as a Markdown table for docs/upstreams/presets.md."""
    rows = [
        f"| `{one.name}` | {_protocols(one)} | {_code(_key(one))} | {_addresses(one)} | {_parameters(one)} |"
        for one in _all()
    ]
    return "\n".join(["| preset | protocols | key | base URL | settings |", "|---|---|---|---|---|", *rows])


def _all() -> list[Preset]:
    return list(PRESETS.values())


def _protocols(preset: Preset) -> str:
    return ", ".join(protocol.short for protocol in preset.urls)


def _key(preset: Preset) -> str:
    return f"cmd:{preset.command}" if preset.command else preset.variable


def _code(text: str) -> str:
    return f"`{text}`" if text else ""


def _addresses(preset: Preset) -> str:
    """Return the base URLs, with the protocol where they differ."""
    if preset.one_address:
        return f"`{preset.urls[preset.protocol]}`"
    return "; ".join(f"{protocol.short}: `{url}`" for protocol, url in preset.urls.items())


def _parameters(preset: Preset) -> str:
    """Return the settings that are part of the address, with the variables that are used instead."""
    return "; ".join(
        f"`{one.name}` ({', '.join(map(_code, one.variables))}{f'; default {one.fallback}' if one.fallback else ''})"
        for one in preset.parameters
    )
