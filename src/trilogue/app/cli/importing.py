"""`trilogue import`: turn the file of another gateway into a Trilogue configuration."""

from __future__ import annotations

from pathlib import Path

import click

from trilogue.app.cli.configured import why_unusable
from trilogue.app.cli.files import read
from trilogue.app.cli.tables import counted
from trilogue.config.importers.run import import_file
from trilogue.config.importers.source import FOREIGN, Foreign
from trilogue.errors import ConfigError


@click.command(name="import")
@click.argument("source", type=click.Choice(FOREIGN), metavar="[litellm|claude-code-router|bifrost]")
@click.argument("file", metavar="FILE")
@click.option(
    "--output", type=click.Path(dir_okay=False, path_type=Path), help="Write the result here; default: stdout."
)
def import_(source: Foreign, file: str, output: Path | None) -> None:
    """Turn the FILE of another gateway ("-": standard input) into a Trilogue configuration.

    Everything that was not carried over is listed on standard error, with its line and the reason. Keys are not copied:
    the result refers to environment variables.

    \b
    trilogue import litellm config.yaml --output trilogue.yaml
    trilogue check trilogue.yaml
    """
    try:
        imported = import_file(read(file), source)
    except ConfigError as error:
        raise click.UsageError(why_unusable(Path(file), error)) from None
    if output is None:
        click.echo(imported.text, nl=False)
    else:
        _write(output, imported.text)
    for problem in imported.dropped:
        click.echo(f"not carried over: {problem}", err=True)
    carried = f"{counted(imported.providers, 'provider')} and {counted(imported.models, 'model name')} carried over"
    click.echo(f"{carried}; {counted(len(imported.dropped), 'setting')} not", err=True)


def _write(path: Path, text: str) -> None:
    """Write a new file. An existing one is not replaced: it may have taken someone an hour."""
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise click.UsageError(f"{path} exists already") from None
    except OSError as error:
        raise click.UsageError(f"cannot write {path}: {error.strerror}") from None
