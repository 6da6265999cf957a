"""Sound that a model made: read whole or from its fragments, and written."""

from __future__ import annotations

from base64 import b64decode, b64encode
from binascii import Error as Base64Error

from trilogue.model import Audio, Json, Source, SourceKind
from trilogue.protocols.fields.reader import LooseFields


def read_audio(value: Json, path: str) -> Audio | None:
    """Of a whole answer; servers that never make any send it empty."""
    fields = LooseFields(value)
    audio_id, data, transcript = fields.text("id"), fields.text("data"), fields.text("transcript")
    if not audio_id and not data and not transcript:
        return None
    source = Source(SourceKind.DATA, data) if data else None
    return Audio(id=audio_id, source=source, transcript=transcript, path=path, extras=fields.rest())


def audio_of(block: Audio) -> dict[str, Json]:
    """As the official API gives it."""
    data = block.source.value if block.source is not None else ""
    return {"id": block.id or "", "data": data, "transcript": block.transcript or "", **(block.extras or {})}


class AudioAssembler:
    """Sound is given out in one piece: no other protocol has it, and its fragments are useless alone."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._pieces: dict[str, list[str]] = {}
        self._extras: dict[str, Json] = {}

    def take(self, value: Json) -> None:
        """A fragment."""
        fields = LooseFields(value)
        for name in ("id", "data", "transcript"):
            piece = fields.text(name)
            if piece:
                self._pieces.setdefault(name, []).append(piece)
        self._extras.update(fields.rest() or {})

    def finish(self) -> Audio | None:
        """What there is of it since the last time."""
        if not self._pieces:
            return None
        pieces, self._pieces = self._pieces, {}
        extras, self._extras = self._extras, {}
        data = _join_base64(pieces.get("data", []))
        return Audio(
            id=pieces.get("id", [None])[0],
            source=Source(SourceKind.DATA, data) if data else None,
            transcript="".join(pieces.get("transcript", [])) or None,
            path=self._path,
            extras=extras or None,
        )


def _join_base64(pieces: list[str]) -> str:
    """One base64 text of several. Pieces that end in padding cannot simply be put together."""
    if not any("=" in piece for piece in pieces[:-1]):
        return "".join(pieces)
    try:
        return b64encode(b"".join(b64decode(piece) for piece in pieces)).decode()
    except (Base64Error, ValueError):
        return "".join(pieces)
