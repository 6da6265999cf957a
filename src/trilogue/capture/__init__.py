"""Captures: everything that happened to one request, in one file, and its replay without the gateway.

`CaptureWriter` makes the bytes of a file, `CaptureFolder` keeps files, `read_capture` reads one, and `replay` runs the
translation again and compares. docs/capture.md describes the format.
"""

from trilogue.capture.credentials import shown_headers, shown_url
from trilogue.capture.folder import CaptureFolder
from trilogue.capture.format import FORMAT, SUFFIX, VERSION, CaptureError, End, Head, Line, Phase, Plan
from trilogue.capture.reader import Capture, CapturedAttempt, Exchanged, is_capture, read_capture
from trilogue.capture.replay import Change, Replayed, Step, replay
from trilogue.capture.writer import CaptureWriter, Sent

__all__ = [
    "FORMAT",
    "SUFFIX",
    "VERSION",
    "Capture",
    "CaptureError",
    "CaptureFolder",
    "CaptureWriter",
    "CapturedAttempt",
    "Change",
    "End",
    "Exchanged",
    "Head",
    "Line",
    "Phase",
    "Plan",
    "Replayed",
    "Sent",
    "Step",
    "is_capture",
    "read_capture",
    "replay",
    "shown_headers",
    "shown_url",
]
