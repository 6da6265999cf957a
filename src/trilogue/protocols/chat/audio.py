"""Audio that a model produced: read from complete responses or fragments, and written."""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from binascii import Error as Base64Error

from trilogue.model import Audio, Json, Source, SourceKind
from trilogue.protocols.fields.reader import LooseFields

MOST_COMPARED = 4096
"""the number of characters of a text that are kept to be compared with a transcript"""
_WORD = re.compile(r"\w+")


def read_audio(value: Json, path: str, said: str) -> Audio | None:
    """Return the audio of a complete response; None if it is empty, as some servers always send it.

    `said`: the text of the response, which the transcript may repeat.
    """
    fields = LooseFields(value)
    audio_id, data, transcript = fields.text("id"), fields.text("data"), fields.text("transcript")
    # An empty object says nothing; some servers send it with every message.
    if not audio_id and not data and not transcript:
        return None
    source = Source(SourceKind.DATA, data) if data else None
    repeats = repeats_text(transcript or "", said)
    return Audio(
        id=audio_id, source=source, transcript=transcript, repeats_text=repeats, path=path, extras=fields.rest()
    )


def repeats_text(transcript: str, text: str) -> bool:
    """Return whether a transcript has only words of a text. Of a long text, only the beginning is compared."""
    # OpenAI leaves the content null next to audio. Omni models of other servers send the same words in both, which may
    # differ in case, spaces and punctuation.
    spoken, written = _words(transcript), _words(text)
    if f" {' '.join(spoken)} " in f" {' '.join(written)} ":
        return True
    squeezed, opening = "".join(spoken), "".join(written)
    return squeezed == opening or (len(text) >= MOST_COMPARED and squeezed.startswith(opening))


def _words(text: str) -> list[str]:
    return _WORD.findall(text.casefold()) or [text.strip()]


def audio_of(block: Audio) -> dict[str, Json]:
    """Return audio as the official API writes it."""
    data = block.source.value if block.source is not None else ""
    return {"id": block.id or "", "data": data, "transcript": block.transcript or "", **(block.extras or {})}


class AudioAssembler:
    """An accumulator for the fragments of streamed audio.

    Audio is emitted in one piece: no other protocol has it, and a fragment alone is useless.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._pieces: dict[str, list[str]] = {}
        self._extras: dict[str, Json] = {}

    def __bool__(self) -> bool:
        return bool(self._pieces)

    def is_another(self, value: Json) -> bool:
        """Return whether a fragment is of another clip than the ones before it."""
        ids, new = self._pieces.get("id"), LooseFields(value).text("id")
        return bool(ids and new) and new not in (ids or ())

    def take(self, value: Json) -> None:
        """Add one fragment of audio."""
        fields = LooseFields(value)
        for name in ("id", "data", "transcript"):
            piece = fields.text(name)
            if piece:
                self._pieces.setdefault(name, []).append(piece)
        self._extras.update(fields.rest() or {})

    def finish(self, said: str) -> Audio | None:
        """Return the audio since the last call, or None if there was none. `said`: the text of the response so far."""
        if not self._pieces:
            return None
        pieces, self._pieces = self._pieces, {}
        extras, self._extras = self._extras, {}
        data = _join_base64(pieces.get("data", []))
        transcript = "".join(pieces.get("transcript", []))
        return Audio(
            id=pieces.get("id", [None])[0],
            source=Source(SourceKind.DATA, data) if data else None,
            transcript=transcript or None,
            repeats_text=repeats_text(transcript, said),
            path=self._path,
            extras=extras or None,
        )


def _join_base64(pieces: list[str]) -> str:
    """Return one base64 text for several. Pieces that end in padding must be decoded first."""
    # Servers that encode every fragment by itself pad each of them.
    if not any("=" in piece for piece in pieces[:-1]):
        return "".join(pieces)
    try:
        return b64encode(b"".join(b64decode(piece) for piece in pieces)).decode()
    except (Base64Error, ValueError):
        return "".join(pieces)
