"""Files for a batch, looked at while they are uploaded: their lines are requests, which may name ids.

Whose those are cannot be checked before the file is sent on. Where an id may be another client's, such a file is
refused before its last part is sent.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from trilogue.errors import BadRequest
from trilogue.gateway.conversations.fields import ESCAPED

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
