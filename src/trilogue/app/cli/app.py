"""The `trilogue` command: the list of its subcommands, and how errors end it (one line on stderr, exit code 2).

Subcommands are imported when they are used, so that `trilogue convert` does not load a web server.
"""

from __future__ import annotations

import errno
import os
import sys
from importlib import import_module
from keyword import iskeyword
from pathlib import Path

import click
from click.exceptions import NoArgsIsHelpError, NoSuchCommand

from trilogue import TrilogueError, __version__

BAD_INPUT = 2
UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""errors of writing the result that are not our fault: disk full, quota exceeded, file too large, I/O error"""

OWN_OPTIONS = ("-h", "--help", "--version")
COMMANDS = {
    "serve": ("trilogue.app.cli.serve", "Run the gateway: every client, every upstream, one server."),
    "launch": ("trilogue.app.cli.launch", "Start Claude Code, Codex or another client with a gateway for it alone."),
    "accounts": ("trilogue.app.cli.accounts", "Show accounts and their state; enable, disable, reset or add them."),
    "keys": ("trilogue.app.cli.keys", "Make, list, rotate and revoke client keys."),
    "approvals": ("trilogue.app.cli.approvals", "Show tool calls that wait for approval; approve or deny them."),
    "audit": ("trilogue.app.cli.audit", "Show who changed keys, accounts and captures, and when."),
    "explain": ("trilogue.app.cli.explain", "Show what happened to a request: route, attempts, losses, times, cost."),
    "state": ("trilogue.app.cli.state", "Show, prune, export or delete stored responses and conversations."),
    "usage": ("trilogue.app.cli.usage", "Show what was used and what it has cost, by key, model, account and time."),
    "nodes": ("trilogue.app.cli.nodes", "Show the nodes of a cluster, with version, load and lag."),
    "check": ("trilogue.app.cli.check", "Check a configuration file, or print its JSON Schema."),
    "presets": ("trilogue.app.cli.presets", "List the vendors and servers that need no address in a configuration."),
    "import": (
        "trilogue.app.cli.importing",
        "Turn a file of LiteLLM, claude-code-router or Bifrost into a configuration.",
    ),
    "models": ("trilogue.app.cli.models", "Show what a model accepts, with sources, and what is sent instead."),
    "convert": ("trilogue.app.cli.convert", "Translate a request, a response or a stream to another protocol."),
    "collect": ("trilogue.app.cli.convert", "Assemble a recorded stream into the complete response."),
    "lint": ("trilogue.app.cli.lint", "Report every violated protocol rule in a stream or body."),
    "diff": ("trilogue.app.cli.diff", "Compare two bodies, streams or captures by meaning, in any two protocols."),
    "capture": ("trilogue.app.cli.capture", "Capture the next requests of a running gateway, each in a file."),
    "replay": ("trilogue.app.cli.replay", "Translate captured requests again, and compare with what was captured."),
    "losses": ("trilogue.app.cli.convert", "List what a translation can lose."),
}
"""module of each command, and its line in the overview"""


def _config_after_command(args: list[str]) -> list[str]:
    """Return the arguments with `--config FILE` behind the command that it stands before, if it does."""
    taken = 2 if args[:1] == ["--config"] else 1 if args and args[0].startswith("--config=") else 0
    if taken and args[taken : taken + 1] and args[taken] in COMMANDS:
        return [args[taken], *args[:taken], *args[taken + 1 :]]
    return args


class Commands(click.Group):
    """A group that imports each command only when it is used."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Run `serve` if no command is given: `trilogue --port 8080` starts the gateway.

        `--config FILE` may come before the command too.
        """
        args = _config_after_command(args)
        if not args or (args[0].startswith("-") and args[0] not in OWN_OPTIONS):
            args = ["serve", *args]
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that the arguments name. Raises NoSuchCommand with the names that it could be."""
        if args[0] not in COMMANDS:
            if Path(args[0]).is_file():
                message = f"No such command {args[0]!r}. To start the gateway with this file: --config {args[0]}."
                raise NoSuchCommand(args[0], message, ctx=ctx)
            raise NoSuchCommand(args[0], possibilities=COMMANDS, ctx=ctx)
        return super().resolve_command(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return a command, or return None if there is no such command."""
        if cmd_name not in COMMANDS:
            return None
        name = f"{cmd_name}_" if iskeyword(cmd_name) else cmd_name
        command: click.Command = getattr(import_module(COMMANDS[cmd_name][0]), name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the overview from the table, so that `--help` imports no command."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="trilogue")
def app() -> None:
    """Connect any LLM client to any upstream, whichever protocols they speak.

    `serve` runs the gateway, and so does `trilogue` alone; the other commands work on files, offline. Protocols are
    named chat, messages and responses (OpenAI Chat Completions, Anthropic Messages, OpenAI Responses).
    """


def main() -> None:
    """Run the `trilogue` command and exit. Errors of ours become one line on stderr."""
    try:
        _run()
    except click.ClickException as error:
        _show(error)
        sys.exit(error.exit_code)
    except click.Abort:
        sys.exit(130)
    except TrilogueError as error:
        click.echo(f"trilogue: {error}", err=True)
        sys.exit(BAD_INPUT)
    except BrokenPipeError:
        # The reader of the pipe has closed it. This is how click exits if it notices that first.
        _discard_output()
        sys.exit(1)
    except OSError as error:
        if error.errno not in UNWRITABLE:
            raise
        _discard_output()
        click.echo(f"trilogue: cannot write: {error.strerror}", err=True)
        sys.exit(BAD_INPUT)


def _show(error: click.ClickException) -> None:
    """Print an error on standard error: the line of a command, without click's three lines of usage before it."""
    if isinstance(error, NoArgsIsHelpError):
        error.show()
        return
    hint = ""
    # For what was mistyped, the help lists what there is. Errors that are raised by commands say it themselves.
    if isinstance(error, click.UsageError) and type(error) is not click.UsageError and error.ctx is not None:
        hint = f" (see {error.ctx.command_path} --help)"
    click.echo(f"trilogue: {error.format_message().rstrip('.')}{hint}", err=True)


def _run() -> None:
    """Run the command, and write all of its output: what is left in a buffer may not fit on the disk."""
    try:
        app.main(prog_name="trilogue", standalone_mode=False)
    finally:
        if sys.stdout is not None:
            sys.stdout.flush()


def _discard_output() -> None:
    """Drop what could not be written. Otherwise Python tries once more when it exits, and reports a second error."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
