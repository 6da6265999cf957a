"""Bodies that are sent on while they arrive, such as files: their beginning is held, and the model of a form is found.

In: the request of a client. Out: a source for each attempt. What is sent is what arrived, except for the model's name.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from trilogue.serving import HttpRequest

HELD_BYTES = 1024 * 1024
"""how much of a body is kept, so that it can be sent again to another account"""
_OVERLAP = 8 * 1024
"""bytes that are searched again when more have arrived: the name of the model and the lines before it are shorter"""
_FORM = re.compile(r'multipart/form-data\s*;.*?boundary="?([^";,\s]{1,200})', re.IGNORECASE)
_MODEL_FIELD = (
    rb'--%b\r\n(?:[^\r\n]{1,1000}\r\n){0,8}?content-disposition:[^\r\n]{0,200}?[;\s]name="?model"?[ ;]*\r\n'
    rb"(?:[^\r\n]{1,1000}\r\n){0,8}\r\n([^\r\n]{1,300})\r\n--%b"
)


class FoundModel(NamedTuple):
    """The model that a form names, and where it is in the body."""

    name: str
    start: int
    end: int


class HeldUpload:
    """The body of a request while it arrives. `limit`: the largest one that is taken, in bytes."""

    def __init__(self, request: HttpRequest, limit: int) -> None:
        self._request = request
        self._limit = limit
        self.declared = request.declared_length
        self.held = bytearray()
        self.complete = False
        """whether all of it has arrived"""
        self.replayable = True
        """whether all that has arrived is held, so that another attempt can send it again"""
        self.model: FoundModel | None = None

    async def more(self, most: int = HELD_BYTES) -> bytes:
        """Return the next part, b"" at the end, and hold it unless this many bytes are held already."""
        data = await self._request.piece(self._limit)
        if not data:
            self.complete = True
        elif self.replayable and len(self.held) < most:
            self.held += data
        else:
            self.replayable = False
        return data

    async def find_model(self, content_type: str, most: int) -> None:
        """Read until the form names its model, if it does so within this many bytes."""
        form = _FORM.match(content_type)
        if form is None:
            return
        boundary = re.escape(form[1].encode("latin-1"))
        pattern = re.compile(_MODEL_FIELD % (boundary, boundary), re.IGNORECASE)
        searched = 0
        while len(self.held) < most and await self.more(most):
            found = pattern.search(self.held, max(0, searched - _OVERLAP))
            if found is not None:
                self.model = FoundModel(found[1].decode("utf-8", "replace"), found.start(1), found.end(1))
                return
            searched = len(self.held)

    def source(self, model: str) -> UploadSource:
        """Return the body for one attempt, with this model in place of the one that the form names."""
        found, held = self.model, bytes(self.held)
        if found is None or model == found.name:
            return UploadSource(self, held, len(held), self.declared)
        changed = held[: found.start] + model.encode() + held[found.end :]
        length = None if self.declared is None else self.declared + len(changed) - len(held)
        return UploadSource(self, changed, len(held), length)


class UploadSource:
    """The body that one attempt sends: what was held when it began, and then what arrives. A `BodySource`."""

    def __init__(self, upload: HeldUpload, beginning: bytes, held: int, length: int | None) -> None:
        self._upload = upload
        self._beginning = beginning
        self._position = held
        """how much of what the upload holds was sent"""
        self.length = length

    async def piece(self) -> bytes:
        """Return the next part of the body; b"" at its end."""
        data, self._beginning = self._beginning, b""
        if data:
            return data
        upload = self._upload
        data = bytes(upload.held[self._position :])
        if not data and not upload.complete:
            data = await upload.more()
            if not upload.replayable:
                return data
        self._position += len(data)
        return data
