"""`trilogue capture`: let a running gateway capture its next requests, and show what it captures."""

from __future__ import annotations

import signal
import sys
import time
from pathlib import Path
from typing import Any, TypedDict, Unpack

import click
import msgspec

from trilogue import TrilogueError
from trilogue.app.cli.admin_client import AdminClient, AdminRequestFailed, admin_client, admin_options
from trilogue.app.cli.capture_tests import make_folder, make_test
from trilogue.app.cli.tables import counted
from trilogue.base.text import printable
from trilogue.capture import read_capture
from trilogue.capture.replay import replay
from trilogue.gateway.features.capture.session import MOST_REQUESTS, CapturedRequest
from trilogue.gateway.log.access_log import duration

POLL_SECONDS = 0.5
ENDED_EARLY = 1
RUNNING = "running"
DONE = ("complete", "stopped")

Status = dict[str, Any]
"""what the admin interface says about captures"""


class CaptureOptions(TypedDict):
    """The command-line options of `trilogue capture`, as click passes them."""

    path: str | None
    url: str | None
    requests: int
    key: str
    model: str
    errors: bool
    losses: bool
    redact: bool
    as_test: str | None
    json: bool


@click.command()
@admin_options
@click.option(
    "--requests",
    type=click.IntRange(1, MOST_REQUESTS),
    default=1,
    show_default=True,
    help="How many requests to capture.",
)
@click.option("--key", default="", metavar="NAME", help="Only requests with the client key of this name.")
@click.option(
    "--model",
    default="",
    metavar="PATTERN",
    help="Only requests for this model: a name or a pattern such as `gpt-*`, or provider/model.",
)
@click.option("--errors", is_flag=True, help="Only requests that fail or are retried.")
@click.option("--losses", is_flag=True, help="Only requests that lose something in translation.")
@click.option("--redact", is_flag=True, help="Replace all texts by placeholders.")
@click.option("--as-test", metavar="DIR", help="Make a test case of each captured request in this folder.")
@click.option("--json", is_flag=True, help="Print one JSON object per captured request.")
def capture(**options: Unpack[CaptureOptions]) -> None:
    """Capture the next requests of a running gateway, each in a file of its own, until there are enough of them.

    The files are written by the gateway, into its folder for captures. With --errors and --losses, a request that does
    either is captured. Ctrl-C ends the capture at the gateway; so does the loss of the connection, after 15 seconds.

    \b
    trilogue capture --requests 20
    trilogue capture --requests 5 --errors --redact
    trilogue capture --model 'claude-*' --as-test tests/captures

    Exit codes: 0 done, or stopped by Ctrl-C; 1 the capture ended early; 2 it could not be started.
    """
    if options["as_test"] is not None:
        make_folder(Path(options["as_test"]))
    client = admin_client(options["path"], options["url"])
    progress = CaptureProgress(client, client.post("/capture", _asked(options)), json=options["json"])
    click.echo(f"Capturing {_counted(progress.wanted)} into {progress.folder}; Ctrl-C stops.", err=True)
    # Also if a program stops it: the gateway must not go on capturing.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        progress.follow()
    except KeyboardInterrupt:
        progress.stop()
    click.echo(f"{_counted(len(progress.captured))} captured: {progress.state}", err=True)
    if options["as_test"] is not None:
        _make_tests(client, progress.captured, Path(options["as_test"]))
    if progress.state not in DONE:
        sys.exit(ENDED_EARLY)


class CaptureProgress:
    """A capture session of a gateway, and how much of it was printed."""

    def __init__(self, client: AdminClient, status: Status, *, json: bool) -> None:
        self._client = client
        self._json = json
        self._id = status["session"]["id"]
        self._dropped = sum(status["dropped"].values())
        self.wanted: int = status["session"]["requests"]
        self.folder: str = status["folder"]
        self.state: str = RUNNING
        self.captured: list[CapturedRequest] = []

    def follow(self) -> None:
        """Print requests as they are captured, until the session has ended. Asking keeps the session going."""
        while self.state == RUNNING:
            time.sleep(POLL_SECONDS)
            self._take(self._client.get("/capture", {"session": self._id}))

    def stop(self) -> None:
        """End the session at the gateway, and print what is new."""
        self._take(self._client.delete(f"/capture/{self._id}"))

    def _take(self, status: Status) -> None:
        session = status["session"]
        if session is None or session["id"] != self._id:
            raise AdminRequestFailed("the capture has ended: the gateway was restarted")
        self.state = session["state"]
        new = msgspec.convert(session["captured"], list[CapturedRequest])[len(self.captured) :]
        for one in new:
            self.captured.append(one)
            click.echo(msgspec.json.encode(one) if self._json else self._line(one))
        dropped = sum(status["dropped"].values())
        if dropped > self._dropped:
            lost = counted(dropped - self._dropped, "capture")
            click.echo(f"{lost} could not be written: {status['last_error']}", err=True)
            self._dropped = dropped

    def _line(self, one: CapturedRequest) -> str:
        """Return one captured request for people, as the log shows requests."""
        protocols = one.client if one.upstream in ("", one.client) else f"{one.client}→{one.upstream}"
        parts = [
            f"{len(self.captured)}/{self.wanted}",
            time.strftime("%H:%M:%S", time.localtime(one.at)),
            str(one.status),
            protocols,
            f"{one.model} → {one.provider}/{one.upstream_model}" if one.provider else one.model,
            duration(one.duration_ms / 1000),
            f"lost: {', '.join(one.losses)}" if one.losses else "",
            one.error or "",
            one.request_id,
        ]
        return printable(" ".join(part for part in parts if part))


def _asked(options: CaptureOptions) -> dict[str, Any]:
    names = ("requests", "key", "model", "errors", "losses", "redact")
    return {name: value for name, value in options.items() if name in names}


def _counted(number: int) -> str:
    return counted(number, "request")


def _make_tests(client: AdminClient, captured: list[CapturedRequest], folder: Path) -> None:
    """Make a test of each request that can be replayed."""
    for one in captured:
        data = client.read("GET", f"/captures/{one.request_id}")
        try:
            click.echo(make_test(one.request_id, data, replay(read_capture(data)), folder))
        except TrilogueError as error:
            click.echo(f"no test of {error}", err=True)
