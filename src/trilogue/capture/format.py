"""The capture file format, version 2: JSON Lines, one file per request. docs/capture.md describes it.

Line 1 is a `CaptureHead`, then come lines of the four phases in the order of time, then a `PolicyLine` for each
decision of a policy, and the last line is an `End`. A file without decisions is written as version 1, which has none.
Readers ignore fields and phases that they do not know; a change that old readers would misread gets a new version.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from enum import StrEnum
from typing import Literal

from msgspec import UNSET, Struct, UnsetType, field

from trilogue.errors import TrilogueError
from trilogue.model import Json, Loss, Protocol
from trilogue.translate.learning.remedies import Remedy

FORMAT = "trilogue-capture"
VERSION = 2
"""the newest version that can be read"""
WITHOUT_POLICIES = 1
SUFFIX = ".jsonl"


class CaptureError(TrilogueError):
    """A file is not a capture, is damaged, or was written by a newer version. The message says which, and where."""


class CapturePhase(StrEnum):
    """The four points at which a request is captured."""

    INBOUND_REQUEST = "inbound_request"
    """what the client sent"""
    PROVIDER_REQUEST = "provider_request"
    """what the upstream was sent, for each attempt"""
    UPSTREAM_RESPONSE = "upstream_response"
    """what the upstream responded, for each attempt"""
    OUTBOUND_RESPONSE = "outbound_response"
    """what the client got"""


class CaptureHead(Struct, frozen=True, kw_only=True):
    """The first line. `started`: the time of the request in seconds since 1970; all other times count from there."""

    format: str = FORMAT
    version: int = WITHOUT_POLICIES
    request_id: str = ""
    started: float = 0.0
    redacted: bool = False
    """whether texts were replaced by placeholders"""
    trilogue: str = ""
    """the version of Trilogue that wrote the file"""


class Line(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line of a phase: the start of a request or response, with its headers, or a further piece of its body.

    `at`: seconds since the request began. `text` is the body, or a piece of it, as it was on the wire; `base64` is used
    instead for bytes that are not UTF-8. `omitted`: the number of bytes that were left out because the file was full.
    """

    phase: CapturePhase
    at: float
    attempt: int = 0
    """counts the attempts from 1; 0 for the client's side"""
    protocol: Protocol | UnsetType = UNSET
    method: str = ""
    url: str = ""
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    text: str = ""
    base64: str = ""
    omitted: int = 0
    error: str = ""
    """why there is no response, or why it ended early"""
    plan: Json = None
    """provider_request: what the translation depends on, see `Plan`"""
    input: str = ""
    """provider_request: the request that was translated, if it is not the client's body: with stored history, without
    earlier reasoning"""

    def body(self) -> bytes:
        """Return the bytes of this line."""
        return b64decode(self.base64) if self.base64 else self.text.encode("utf-8", "surrogatepass")


POLICY: Literal["policy"] = "policy"
"""the phase of a `PolicyLine`"""


class PolicyLine(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One decision of a policy. It holds no content. `at`: when it was made; `seconds`: how long that took."""

    phase: Literal["policy"]
    at: float
    policy: str
    stage: str
    verdict: str
    reason: str = ""
    block: int | None = None
    kind: str = ""
    seconds: float = 0.0
    matches: int = 0


class Plan(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the translation of one attempt depends on, so that it can be repeated without the gateway.

    `profile`: the fields of the model's profile that are not defaults. `fit`: the same for the profile that a request
    was adjusted to that stays in its protocol; None if it was not. `losses`: what the request lost; `outside`: those of
    them that do not come from the translation, such as a model that was filled in.
    """

    provider: str = ""
    account: str = ""
    model: str = ""
    profile: dict[str, Json] = field(default_factory=dict)
    fit: dict[str, Json] | None = None
    repair: bool = False
    losses: tuple[Loss, ...] = ()
    outside: tuple[Loss, ...] = ()
    remedies: tuple[Remedy, ...] = ()
    """what the model has refused before, and what it is sent instead"""
    recalled: bool = False
    """reasoning that the client has not sent back was put back from the gateway's store"""
    echo: dict[str, Json] = field(default_factory=dict)
    """what the response repeats of the request although the upstream was not sent it: references to stored responses"""
    stored: bool = False
    """the gateway stores the response, which says so"""
    changed: bool = False
    """policies have changed the request; the response repeats what the client sent"""
    judged: bool = False
    """policies have judged the response"""
    continues: bool = False
    """continues the response of the attempt before, which the upstream has paused"""
    searches: bool = False
    """the gateway searches for tools in the response; further requests come with what was found"""
    summary: bool = False
    """the model writes a summary for a compaction, from which the gateway makes the client's response"""


class End(Struct, frozen=True, kw_only=True):
    """The last line. A file without it was not written to its end, or its request was still running."""

    end: bool = True
    at: float = 0.0
    omitted: int = 0
    """bytes of bodies that were left out because the file had reached its largest size"""
    record: Json = None
    """the line of the access log"""


def body_fields(data: bytes) -> dict[str, str]:
    """Return the field of a line that holds these bytes: `text`, or `base64` if they are not UTF-8."""
    try:
        return {"text": data.decode()}
    except UnicodeDecodeError:
        return {"base64": b64encode(data).decode()}
