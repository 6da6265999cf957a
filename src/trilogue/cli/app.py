"""The commands put together, and what an error looks like to a user: one line on stderr, exit code 2."""

from __future__ import annotations

import sys

import click

from trilogue import LOSSES, TrilogueError, __version__
from trilogue.cli.check import check
from trilogue.cli.convert import collect, convert
from trilogue.cli.lint import lint
from trilogue.cli.serve import serve

BAD_INPUT = 2


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="trilogue")
def app() -> None:
    """Every client of one LLM protocol, every backend of another.

    `serve` runs the gateway; the other commands work on files, offline. Protocols are named chat, messages and
    responses (OpenAI Chat Completions, Anthropic Messages, OpenAI Responses).
    """


@app.command()
@click.option("--markdown", is_flag=True, help="As the table of the documentation.")
def losses(markdown: bool) -> None:
    """List what a translation can lose: code, when it happens, what is done instead."""
    click.echo(losses_table() if markdown else losses_text())


def losses_text() -> str:
    """The list for a terminal."""
    width = max(len(code) for code in LOSSES)
    return "\n".join(f"{code:<{width}}  {rule.when}: {rule.instead}" for code, rule in LOSSES.items())


def losses_table() -> str:
    """The list for the documentation."""
    rows = [f"| `{code}` | {rule.when} | {rule.instead} |" for code, rule in LOSSES.items()]
    return "\n".join(["| code | when | instead |", "|---|---|---|", *rows])


for command in (serve, check, convert, collect, lint):
    app.add_command(command)


def main() -> None:
    """Entry point of the `trilogue` command."""
    try:
        app.main(prog_name="trilogue", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except click.Abort:
        sys.exit(130)
    except TrilogueError as error:
        click.echo(f"trilogue: {error}", err=True)
        sys.exit(BAD_INPUT)
    except BrokenPipeError:
        # The reader of a pipe has gone: nothing is left to say, and nobody to say it to.
        sys.stderr.close()
        sys.exit(0)
