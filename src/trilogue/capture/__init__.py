"""Captures: everything that happened to one request, in a file, its replay, and policies tried on it.

`CaptureWriter` makes the bytes of a file, `CaptureFolder` keeps files, `read_capture` reads one, and `replay` runs the
translation again and compares. docs/capture.md describes the format.
"""

from trilogue.capture.credentials import shown_headers, shown_url, url_secrets
from trilogue.capture.folder import CaptureFolder
from trilogue.capture.format import (
    FORMAT,
    SUFFIX,
    VERSION,
    CaptureError,
    CaptureHead,
    CapturePhase,
    End,
    Line,
    Plan,
    PolicyLine,
)
from trilogue.capture.reader import Capture, CapturedAttempt, Exchanged, is_capture, read_capture
from trilogue.capture.replay import Change, Replayed, ReplayStep, replay
from trilogue.capture.writer import CaptureWriter, Sent

__all__ = [
    "FORMAT",
    "SUFFIX",
    "VERSION",
    "Capture",
    "CaptureError",
    "CaptureFolder",
    "CaptureHead",
    "CapturePhase",
    "CaptureWriter",
    "CapturedAttempt",
    "Change",
    "End",
    "Exchanged",
    "Line",
    "Plan",
    "PolicyLine",
    "ReplayStep",
    "Replayed",
    "Sent",
    "is_capture",
    "read_capture",
    "replay",
    "shown_headers",
    "shown_url",
    "url_secrets",
]
