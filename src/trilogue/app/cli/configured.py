"""The configuration that a command uses: the option that names its file, and what is said if it cannot be used."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

import click

from trilogue.config.config import Config
from trilogue.config.environment import with_dotenv
from trilogue.config.load import find, load
from trilogue.errors import ConfigError


class Configured(NamedTuple):
    """A configuration, and the file that it is from; None if it is made from the environment."""

    config: Config
    file: Path | None


def _or_that_of_the_group(context: click.Context, _: click.Parameter, value: str | None) -> str | None:
    """Return the file that was given here, or before the name of the command."""
    given: str | None = value or context.obj
    return given


CONFIG = click.option(
    "--config",
    "path",
    metavar="FILE",
    callback=_or_that_of_the_group,
    help="Configuration file; default: ./trilogue.yaml, then the one in the user's config folder.",
)
"""the same option before and after the name of a command: both orders are natural"""


def read_configuration(path: str | None) -> Configured:
    """Return the configuration for a command that does not need every secret in it. Raises UsageError."""
    file = find(Path(path) if path else None)
    try:
        return Configured(load(file, with_dotenv(os.environ, file), secrets=False), file)
    except ConfigError as error:
        raise click.UsageError(why_unusable(file, error)) from None


def why_unusable(file: Path | None, error: ConfigError) -> str:
    """Return what is wrong with a configuration: one line that names the file, or a line for each problem below it."""
    if file is None or str(file) in str(error):
        return str(error)
    return f"{file}: {error}" if len(error.problems) == 1 else f"{file} cannot be used:\n{error}"
