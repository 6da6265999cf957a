"""`trilogue losses`: print the list of everything that a translation can lose."""

from __future__ import annotations

import click

from trilogue import LOSSES


@click.command()
@click.option("--markdown", is_flag=True, help="Print the list as Markdown, as in the documentation.")
def losses(markdown: bool) -> None:
    """List what a translation can lose: code, severity, when it happens, what is done instead."""
    click.echo(losses_table() if markdown else losses_text())


def losses_text() -> str:
    """Return the list for a terminal."""
    width = max(len(code) for code in LOSSES)
    return "\n".join(
        f"{code:<{width}}  {rule.severity:<8}  {rule.when}: {rule.instead}" for code, rule in LOSSES.items()
    )


def losses_table() -> str:
    """Return the list as a Markdown table for docs/losses.md."""
    rows = [f"| `{code}` | {rule.severity} | {rule.when} | {rule.instead} |" for code, rule in LOSSES.items()]
    return "\n".join(["| code | severity | when | instead |", "|---|---|---|---|", *rows])
