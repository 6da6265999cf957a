"""Every exception that Trilogue raises, split by whose fault it is.

    TrilogueError
    ├── ClientError              the caller must change something; nothing was sent upstream
    │   ├── BadRequest           the request is not a valid request of its own protocol
    │   │   └── TooLarge         it has more fields or items than any real one, and was not read
    │   ├── Unsupported          valid, but the target protocol has no sensible equivalent
    │   └── StrictLoss           strict mode, and the translation would lose something
    ├── UpstreamError            the upstream broke its own protocol, or failed
    │   ├── UpstreamProtocolError    malformed, out of order, not what it claims to be
    │   ├── UpstreamTruncated        the response ended before its terminal event
    │   ├── UpstreamConnect          could not be reached, or the connection broke
    │   ├── UpstreamTimeout          no progress within one of our time limits
    │   └── UpstreamFailure          it responded with an error (carries a `Failure`)
    ├── ConfigError              a configuration that cannot be used (lists its problems)
    ├── SealError                a sealed value that is not ours, was changed, or has an unknown key
    ├── CipherUnavailable        the installed `cryptography` cannot seal values
    └── InternalError            a bug in Trilogue

`str(error)` is safe to show: it holds names and paths, never payloads or secrets.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


class TrilogueError(Exception):
    """Base of all errors that this package raises on purpose."""


class ClientError(TrilogueError):
    """The caller must change the request; an HTTP server responds with 4xx."""

    status = 400

    def __init__(self, message: str, *, path: str = "", code: str = "invalid_request") -> None:
        super().__init__(message)
        self.message = message
        self.path = path
        self.code = code


class BadRequest(ClientError):
    """The request does not follow its own protocol."""


class TooLarge(BadRequest):
    """The request holds more fields or items than any real one, and was not parsed."""

    status = 413

    def __init__(self, message: str) -> None:
        super().__init__(message, code="request_too_large")


class NotAllowed(ClientError):
    """The client key may not do this."""

    status = 403


class LimitReached(ClientError):
    """A limit or a budget of the client is exhausted. `retry_after`: seconds, if waiting helps.

    `is_budget`: it is money, so clients should not retry.
    """

    status = 429

    def __init__(self, message: str, *, code: str, retry_after: float | None, is_budget: bool) -> None:
        super().__init__(message, code=code)
        self.retry_after = retry_after
        self.is_budget = is_budget


class Unsupported(ClientError):
    """The request is valid but has no equivalent in the target protocol."""

    def __init__(self, path: str, reason: str, *, code: str = "unsupported_parameter") -> None:
        super().__init__(f"{path} cannot be mapped: {reason}", path=path, code=code)
        self.reason = reason


class StrictLoss(ClientError):
    """Strict mode: the translation would lose something. `losses` lists everything it would lose."""

    def __init__(self, losses: tuple[object, ...]) -> None:
        listed = "; ".join(str(loss) for loss in losses)
        super().__init__(f"strict mode: the translation would lose {listed}", code="lossy_translation")
        self.losses = losses


class UpstreamError(TrilogueError):
    """The upstream is at fault; an HTTP server responds with 5xx."""

    status = 502
    code = "upstream_error"


class UpstreamProtocolError(UpstreamError):
    """The upstream sent something its protocol does not allow."""

    code = "upstream_protocol_error"


class UpstreamTruncated(UpstreamError):
    """The upstream ended the response before its terminal event."""

    code = "upstream_truncated"


class UpstreamConnect(UpstreamError):
    """The upstream could not be reached, or the connection to it broke. `proxy`: the egress proxy is at fault.

    `connecting`: there was no connection yet. The transport sets it.
    """

    code = "upstream_connect"

    def __init__(self, message: str, *, code: str = "upstream_connect", proxy: bool = False) -> None:
        super().__init__(message)
        self.code = code
        self.proxy = proxy
        self.connecting = False


class UpstreamTimeout(UpstreamError):
    """The upstream made no progress in time; the message names the time limit. `connecting`: there is no connection."""

    status = 504
    code = "upstream_timeout"

    def __init__(self, message: str, *, connecting: bool = False) -> None:
        super().__init__(message)
        self.connecting = connecting


class UpstreamCredential(UpstreamError):
    """There is no key to send: the command that prints it has failed. The message names the program only."""

    status = 503
    code = "upstream_credential"


class UpstreamFailure(UpstreamError):
    """The upstream responded with an error; `failure` is the neutral `model.Failure`."""

    def __init__(self, failure: object) -> None:
        super().__init__(str(failure))
        self.failure = failure


class ConfigError(TrilogueError):
    """A configuration that cannot be used. `problems` lists everything that is wrong with it."""

    problems: tuple[Any, ...]
    """each has a `path`, a `text` and a `line`: they are `config.Problem`, which this module cannot import"""

    def __init__(self, problems: Iterable[object]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


class SealError(TrilogueError):
    """A sealed value cannot be opened: foreign, changed, or sealed with a key we no longer have."""


class CipherUnavailable(TrilogueError):
    """The installed `cryptography` was built without a cipher that sealed values need."""


class InternalError(TrilogueError):
    """A bug in Trilogue: something happened that its own code rules out."""
