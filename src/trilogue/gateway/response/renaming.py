"""Responses that are passed through under another name: the client sees the model that it asked for.

Everything else stays byte for byte. Only a field `model` whose value is the name that the upstream reports is changed;
inside a string of JSON its quotes would be escaped, so words of the model are never touched.
"""

from __future__ import annotations

from trilogue.gateway.request.call import read_model, with_model
from trilogue.gateway.response.pass_through import PassThrough
from trilogue.jsontext.text import dump
from trilogue.model import Event, Json, Protocol, ResponseStart
from trilogue.protocols.stream.reply import Reply


def renamed(body: bytes, name: str) -> bytes:
    """Return a whole response with this name as its model; unchanged if it names none."""
    reported = read_model(body)
    return body if not reported or reported == name else with_model(body, reported, name)


class RenamingPassThrough(PassThrough):
    """The same protocol on both sides, for a client that knows the model by another name."""

    def __init__(self, protocol: Protocol, reply: Reply) -> None:
        super().__init__(protocol, reply)
        self._name = reply.model
        self._spellings: list[tuple[bytes, bytes]] = []
        """how the upstream writes its model's name, and what stands for it"""

    def feed(self, data: bytes) -> bytes:
        """Return the whole events in these bytes, with the client's name of the model."""
        return self._renamed(super().feed(data))

    def whole(self, body: dict[str, Json]) -> bytes:
        """Return a whole response where a stream was asked for."""
        return super().whole({**body, "model": self._name} if body.get("model") else body)

    def close(self) -> bytes:
        """Return what is left when the upstream has ended."""
        return self._renamed(super().close())

    def _watch(self, events: list[Event]) -> None:
        super()._watch(events)
        for event in events:
            # Azure's first chunk has an empty name.
            if type(event) is ResponseStart and event.model and event.model != self._name:
                ours, theirs = dump(self._name), dump(event.model)
                self._spellings = [(key + theirs, key + ours) for key in (b'"model":', b'"model": ')]

    def _renamed(self, data: bytes) -> bytes:
        for theirs, ours in self._spellings:
            data = data.replace(theirs, ours)
        return data
