"""The work of `trilogue convert`, without a command line: bytes of a file in, translated bytes and losses out.

Imports nothing but the library, so that `convert` also works where only the library's own dependencies are installed
(`app/cli/bare.py`).
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from trilogue import (
    ClientError,
    Exchange,
    Failure,
    Loss,
    Protocol,
    StreamTranslator,
    TrilogueError,
    dump,
    translate_request,
    translate_response,
)
from trilogue.model import Severity, refuse_losses
from trilogue.translate.compare.detect import is_stream, protocol_of_stream

KINDS = ("auto", "request", "response", "stream")
FAILED_STREAM = 1


class Misuse(ClientError):
    """Options that do not fit the file."""


class Conversion(Struct, frozen=True, kw_only=True):
    """A file to translate. `request`: the file with the client's original request, which `read` reads."""

    path: str
    data: bytes
    source: Protocol
    target: Protocol
    kind: str = "auto"
    strict: Severity | None = None
    """refuse losses from this severity on"""
    repair: bool = False
    request: str | None = None
    read: Callable[[str], bytes]


class Converted(Struct, frozen=True):
    """The translation. `failure`: the error that a stream ended in."""

    out: bytes
    losses: list[Loss]
    failure: Failure | None = None


def run_conversion(asked: Conversion) -> Converted:
    """Translate a file. Raises Misuse for options that do not fit it, and TrilogueError for other problems."""
    kind = asked.kind
    if kind == "auto":
        kind = "stream" if looks_like_stream(asked.path, asked.data) else "request"
    _refuse_misplaced(kind, asked)
    if kind == "request":
        translation = translate_request(
            asked.data, source=asked.source, target=asked.target, strict=asked.strict, repair=asked.repair
        )
        return Converted(dump(translation.body) + b"\n", translation.losses)
    exchange = _exchange(asked)
    if kind == "stream":
        return _stream(asked, exchange)
    response = translate_response(asked.data, source=asked.source, target=asked.target, exchange=exchange)
    refuse_losses(response.losses, asked.strict)
    return Converted(dump(response.body) + b"\n", response.losses)


def looks_like_stream(path: str, data: bytes) -> bool:
    """Return whether the data is server-sent events instead of one JSON document."""
    return path.endswith(".sse") or is_stream(data)


def refuse_other_stream(data: bytes, protocol: Protocol, option: str) -> None:
    """Raise Misuse if a stream is in another protocol.

    The decoder would ignore all of its events, and the stream would only look truncated.
    """
    found = protocol_of_stream(data)
    if found not in (None, protocol):
        raise Misuse(f"this is a stream of {found.short}, not of {protocol.short} (see {option})")


def _refuse_misplaced(kind: str, asked: Conversion) -> None:
    """Raise Misuse for an option that has no effect on this kind of file."""
    if kind == "request" and asked.request is not None:
        raise Misuse("--request is for responses and streams, but this is a request (see --kind)")
    if kind != "request" and asked.repair:
        raise Misuse(f"--repair is for requests, but this is a {kind} (see --kind)")


def _exchange(asked: Conversion) -> Exchange | None:
    """Return the exchange that the client's request began, or None if there is no file with it."""
    if asked.request is None:
        return None
    data = asked.read(asked.request)
    try:
        return translate_request(data, source=asked.target, target=asked.source).exchange
    except TrilogueError as error:
        raise Misuse(f"{asked.request}: {error}") from None


def _stream(asked: Conversion, exchange: Exchange | None) -> Converted:
    refuse_other_stream(asked.data, asked.source, "--from")
    translator = StreamTranslator(source=asked.source, target=asked.target, exchange=exchange)
    out = translator.feed(asked.data) + translator.close()
    refuse_losses(translator.losses, asked.strict)
    return Converted(out, translator.losses, translator.failed.failure if translator.failed else None)
