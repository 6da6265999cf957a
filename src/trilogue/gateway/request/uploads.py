"""Bodies that are sent on while they arrive, such as files: their beginning is held, and forms are read on the way.

In: the request of a client. Out: a source for each attempt. What is sent is what arrived, except for the model's name.
"""

from __future__ import annotations

from trilogue.gateway.request.batch_files import BatchLines
from trilogue.gateway.request.forms import FormReader, FoundValue
from trilogue.net.server.request import HttpRequest

HELD_BYTES = 1024 * 1024
"""how much of a body is kept, so that it can be sent again to another account"""


class HeldUpload:
    """The body of a request while it arrives. `limit`: the largest one that is taken.

    `form`: reads it on the way. `lines`: looks for ids in it, in case it is a file for a batch.
    """

    def __init__(
        self, request: HttpRequest, limit: int, form: FormReader | None = None, lines: BatchLines | None = None
    ) -> None:
        self._request = request
        self._limit = limit
        self._form = form
        self._lines = lines
        self._arrived = 0
        self.declared = request.declared_length
        self.held = bytearray()
        self.complete = False
        """whether all of it has arrived"""
        self.replayable = True
        """whether all that has arrived is held, so that another attempt can send it again"""

    @property
    def model(self) -> FoundValue | None:
        """The model that the form names, as far as it has arrived."""
        return None if self._form is None else self._form.model

    async def more(self, most: int = HELD_BYTES) -> bytes:
        """Return the next part, b"" at the end, and hold it unless this many bytes are held already.

        Raises BadRequest for a form that is not clear, before its last part can be sent on.
        """
        data = await self._request.piece(self._limit)
        self._arrived += len(data)
        if self._form is not None:
            self._form.feed(data)
            if not data or self._arrived == self.declared:
                self._form.close()
            if self._lines is not None:
                self._lines.feed(data, self._form.purpose)
        if not data:
            self.complete = True
        elif self.replayable and len(self.held) < most:
            self.held += data
        else:
            self.replayable = False
        return data

    async def find_model(self, most: int) -> None:
        """Read until the form names its model, if it does so within this many bytes."""
        while self._form is not None and self.model is None and len(self.held) < most and await self.more(most):
            pass

    def source(self, model: str) -> UploadSource:
        """Return the body for one attempt, with this model in place of the one that the form names."""
        found, held = self.model, bytes(self.held)
        if found is None or not model or model == found.name:
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
