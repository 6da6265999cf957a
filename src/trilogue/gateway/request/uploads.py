"""Bodies that are sent on while they arrive, such as files: their beginning is held, and forms are read on the way.

In: the request of a client. Out: a source for each attempt. What is sent is what arrived, except for the model's name.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from enum import Enum, auto
from typing import NamedTuple

from trilogue.errors import BadRequest
from trilogue.gateway.conversations.request_fields import ESCAPED
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


MOST_HEAD_BYTES = 16 * 1024
MOST_NAME_BYTES = 300
_FORM = re.compile(r'multipart/form-data((?:\s*;\s*[\w-]+=(?:"[^"\\]*"|[^\s;"]+))*)\s*;?\s*', re.IGNORECASE)
_BOUNDARY = re.compile(r'boundary=(?:"([^"]{1,200})"|([^\s;"]{1,200}))', re.IGNORECASE)
_FIELD = re.compile(
    rb'\s*form-data((?:\s*;\s*[\w*.-]+=(?:"(?:[^"\\\r\n]|\\[^\r\n])*"|[^\s;"]+))+)\s*;?\s*', re.IGNORECASE
)
_PARAMETER = re.compile(rb'([\w*.-]+)=(?:"((?:[^"\\\r\n]|\\[^\r\n])*)"|([^\s;"]+))')
_HEADER = re.compile(rb"([\w-]+):([^\r\n]*)")
_PLAIN_ENCODINGS = (b"binary", b"7bit", b"8bit")
_PLAIN_CHARSETS = re.compile(rb"charset=(?!\"?(?:utf-8|us-ascii)\b)", re.IGNORECASE)
_MODEL, _PURPOSE = "model", "purpose"
_READ = (_MODEL, _PURPOSE)
"""fields that are read; a form may have each of them once"""


class FoundValue(NamedTuple):
    """The value of a field, and where it is in the body."""

    name: str
    start: int
    end: int


class _State(Enum):
    BEGIN = auto()
    HEAD = auto()
    CONTENT = auto()
    END = auto()


def boundary_of(content_type: str) -> str | None:
    """Return the boundary of a form; None for other bodies. Raises BadRequest if it is not clear."""
    if not content_type.strip().lower().startswith("multipart/form-data"):
        return None
    form = _FORM.fullmatch(content_type.strip())
    found = _BOUNDARY.findall(form[1]) if form is not None else []
    if form is None or len(found) != 1 or form[1].lower().count("boundary") != 1:
        raise _unclear("its content-type must have one boundary")
    return str(found[0][0] or found[0][1])


class FormReader:
    """Reads a form as it arrives. `refused`: fields that must not be in it, because their values are ids."""

    def __init__(self, boundary: str, refused: Collection[str] = ()) -> None:
        self._mark = b"--" + boundary.encode("latin-1")
        self._refused = refused
        self._state = _State.BEGIN
        self._data = bytearray()
        self._offset = 0
        """how much of the body was dropped before `_data`"""
        self._reading = ""
        """the field whose value is read"""
        self._begin = 0
        """where that value begins"""
        self._problem: BadRequest | None = None
        self._found: dict[str, FoundValue] = {}

    @property
    def model(self) -> FoundValue | None:
        """The model that the form names, as far as it has arrived."""
        return self._found.get(_MODEL)

    @property
    def purpose(self) -> str:
        """What a file is for; "" if that has not arrived."""
        return self._found[_PURPOSE].name if _PURPOSE in self._found else ""

    def feed(self, data: bytes) -> None:
        """Read the next part. Raises BadRequest, and from then on always."""
        self._data += data
        try:
            if self._problem is None:
                while self._step():
                    pass
        except BadRequest as error:
            self._problem = error
        if self._problem is not None:
            raise self._problem

    def close(self) -> None:
        """Note that all has arrived. Raises BadRequest if the form has no end."""
        self.feed(b"")
        if self._state is not _State.END:
            self._problem = _unclear("it has no end")
            raise self._problem

    def _step(self) -> bool:
        """Go on by one delimiter or head. Return False if more data is needed."""
        return self._read_head() if self._state is _State.HEAD else self._read_content()

    def _read_content(self) -> bool:
        """Go on to the next delimiter. Wherever it is, it must be one that every server takes for one."""
        at = self._data.find(self._mark)
        if at < 0:
            self._check_value(len(self._data))
            self._drop(len(self._data) - len(self._mark) - 1)
            return False
        end = at + len(self._mark)
        if len(self._data) < end + 2:
            return False
        after, before = bytes(self._data[end : end + 2]), bytes(self._data[max(0, at - 2) : at])
        begins = self._state is _State.BEGIN and self._offset + at in (0, 2)
        if (before != b"\r\n" and not (begins and at == 0)) or (self._state is _State.BEGIN and not begins):
            raise _unclear("a boundary must be on a line of its own")
        if self._state is _State.END or after not in (b"\r\n", b"--"):
            raise _unclear("there is a boundary that is not followed by a field or the end")
        self._end_value(at - 2)
        self._state = _State.HEAD if after == b"\r\n" else _State.END
        self._drop(end + 2)
        return True

    def _read_head(self) -> bool:
        end = self._data.find(b"\r\n\r\n")
        if end < 0 and len(self._data) <= MOST_HEAD_BYTES:
            return False
        if not 0 <= end <= MOST_HEAD_BYTES:
            raise _unclear("the head of a field is too long")
        name = _field_name(bytes(self._data[:end]))
        plain = name.partition("[")[0].strip().lower()
        if plain in _READ:
            if name != plain or plain in self._found:
                raise _unclear(f"it must have one field that is called {plain}")
            self._reading, self._begin = name, self._offset + end + 4
        elif plain in self._refused:
            raise BadRequest(f"send {plain} in a JSON body: a form with ids of objects is not taken", path=plain)
        self._state = _State.CONTENT
        self._drop(end + 4)
        return True

    def _check_value(self, end: int) -> None:
        if self._reading and self._offset + end - self._begin > MOST_NAME_BYTES + len(self._mark) + 4:
            raise BadRequest(f"{self._reading} must be a name", path=self._reading)

    def _end_value(self, end: int) -> None:
        """Keep the value that ends here, if one is being read."""
        field, self._reading = self._reading, ""
        if not field:
            return
        value = bytes(self._data[self._begin - self._offset : end])
        if len(value) > MOST_NAME_BYTES or b"\r" in value or b"\n" in value:
            raise BadRequest(f"{field} must be a name", path=field)
        try:
            self._found[field] = FoundValue(value.decode(), self._begin, self._offset + end)
        except UnicodeDecodeError:
            raise BadRequest(f"{field} must be a name", path=field) from None

    def _drop(self, size: int) -> None:
        """Forget what was looked at, except for a value that is being read."""
        keep = min(size, self._begin - self._offset) if self._reading else size
        if keep > 0:
            del self._data[:keep]
            self._offset += keep


def _field_name(head: bytes) -> str:
    """Return the name of a field. Raises BadRequest if servers may read it in different ways."""
    dispositions = []
    for line in head.split(b"\r\n"):
        header = _HEADER.fullmatch(line)
        if header is None:
            raise _unclear("the head of a field must have plain lines")
        name, value = header[1].lower(), header[2].strip()
        if name == b"content-disposition":
            dispositions.append(value)
        elif name == b"content-transfer-encoding" and value.lower() not in _PLAIN_ENCODINGS:
            raise _unclear("fields must not be encoded")
        elif name == b"content-type" and _PLAIN_CHARSETS.search(value) is not None:
            raise _unclear("fields must be UTF-8")
    found = _FIELD.fullmatch(dispositions[0]) if len(dispositions) == 1 else None
    parameters = _PARAMETER.findall(found[1]) if found is not None else []
    names: list[bytes] = [quoted or plain for name, quoted, plain in parameters if name.lower() in (b"name", b"name*")]
    if len(names) != 1 or b"\\" in names[0] or any(name.lower() == b"name*" for name, _, _ in parameters):
        raise _unclear("each field must have one plain name")
    return names[0].decode("utf-8", "replace")


def _unclear(reason: str) -> BadRequest:
    text = f"the form is not taken, because servers could read it in different ways: {reason}"
    return BadRequest(text, code="unclear_form")


BATCH = "batch"
_OVERLAP = 256
"""bytes that are searched again when more have arrived; a field with the beginning of its value is shorter"""


class BatchLines:
    """Looks for fields with ids. `fields`: their names."""

    def __init__(self, fields: Collection[str]) -> None:
        names = "|".join(re.escape(name) for name in fields).encode()
        # A schema may have properties of these names, whose values are objects; `container` may be one without an id.
        named = rb'"(?:%b)"\s*:\s*["\[]|"(?:conversation|thread)"\s*:\s*\{|"item_reference"' % names
        # Items of earlier responses may be named by their ids alone, such as msg_…, and spoken responses by `audio`.
        named += rb'|\{\s*(?:"type"\s*:\s*null\s*,\s*)?"id"\s*:\s*"[a-z]{2,5}_\w+"\s*(?:,\s*"type"\s*:\s*null\s*)?\}'
        escaped = rb"(?<!\\)(?:\\\\)*%b" % ESCAPED.pattern
        self._pattern = re.compile(rb"%b|%b" % (named, escaped))
        self._tail = b""
        self._found = False

    def feed(self, data: bytes, purpose: str) -> None:
        """Look at the next part of a form. Raises BadRequest once it is clear that it is for a batch and names ids."""
        if not self._found:
            text = self._tail + data
            self._found = self._pattern.search(text) is not None
            self._tail = _unfinished(text)[-_OVERLAP:]
        if self._found and purpose.strip().lower() == BATCH:
            raise BadRequest(
                "the requests of a batch must not name files, earlier responses or other objects here: several client "
                "keys share the account, and whose they are cannot be checked (server.shared_objects)",
                code="unchecked_ids",
            )


def _unfinished(text: bytes) -> bytes:
    """Return a text without the space at its end, which may be of any length between a field and its value."""
    left = text.rstrip()
    if left.endswith(b":"):
        return left[:-1].rstrip() + b":"
    return left if len(left) == len(text) else left + b" "
