"""The settings of captures, and what is wrong with them."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from trilogue.base.problems import Findings


class CaptureSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Captures: which requests are written to files, and where. The limits hold for `trilogue capture` too."""

    sample: Annotated[float, Meta(ge=0, le=1)] = 0.0
    """share of requests to capture, from 0 to 1; 0: only those that `trilogue capture` asks for"""
    keys: tuple[str, ...] = ()
    """only requests with client keys of these names"""
    models: tuple[str, ...] = ()
    """only requests for these models: names or patterns such as `gpt-*`, as the client sends them, or `provider/model`
    that they were sent to"""
    errors: bool = False
    """only requests that failed, or that had to be retried"""
    losses: bool = False
    """only requests in which a loss was declared; with `errors`, one of the two is enough"""
    redact: bool = False
    """replace all texts by placeholders, also for `trilogue capture`"""
    folder: str = ""
    """where the files go; default: `captures` in the state folder"""
    max_file_bytes: Annotated[int, Meta(ge=16_384, le=256 * 1024**2)] = 16 * 1024**2
    """largest size of a file; bodies that do not fit are left out"""
    max_files: Annotated[int, Meta(ge=1, le=100_000)] = 100
    """most files in the folder; the oldest are deleted"""
    max_total_bytes: Annotated[int, Meta(ge=65_536, le=2**50)] = 256 * 1024**2
    """most bytes of all files in the folder; the oldest are deleted"""


def check_capture(capture: CaptureSettings) -> Findings:
    """Yield what makes the settings of captures unusable."""
    # The gateway and the commands may be started in different folders.
    if capture.folder and not capture.folder.startswith(("/", "~/")):
        yield "capture.folder", "must begin with / or ~/"
    if capture.max_file_bytes > capture.max_total_bytes:
        yield "capture.max_file_bytes", "is more than capture.max_total_bytes"
