"""Reading wire objects without losing anything.

A reader hands out the fields of one JSON object by name and type and knows which ones nobody took: `rest()` is what
becomes the block's extras. Null and absent are the same. `Fields` is for requests, where a wrong type is the client's
mistake and an error; `LooseFields` for answers, where it is one more quirk and stays in the rest.
"""

from __future__ import annotations

from typing import Any

from trilogue.errors import BadRequest
from trilogue.model import Extras, Json


class Fields:
    """Strict: a field of the wrong type raises `BadRequest` with its path."""

    __slots__ = ("_left", "path")

    def __init__(self, value: Json, path: str = "") -> None:
        if not isinstance(value, dict):
            raise BadRequest(f"{path or 'the body'} must be an object", path=path)
        self._left: dict[str, Json] = value.copy()
        self.path = path

    def at(self, name: str) -> str:
        """The JSON path of a field."""
        return f"{self.path}.{name}" if self.path else name

    def any(self, name: str) -> Json:
        """The value as it is."""
        return self._left.pop(name, None)

    def text(self, name: str) -> str | None:
        """A string."""
        value = self._left.pop(name, None)
        return value if value is None or type(value) is str else self._wrong(name, "a string", value)

    def flag(self, name: str) -> bool | None:
        """A boolean."""
        value = self._left.pop(name, None)
        return value if value is None or type(value) is bool else self._wrong(name, "a boolean", value)

    def integer(self, name: str) -> int | None:
        """An integer; 1.0 counts as one."""
        value = self._left.pop(name, None)
        if type(value) is float and value.is_integer():
            value = int(value)
        return value if value is None or type(value) is int else self._wrong(name, "an integer", value)

    def number(self, name: str) -> float | None:
        """A number; integers stay integers so that they are written back as they came."""
        value: float | None = self._left.pop(name, None)
        return value if value is None or type(value) in (int, float) else self._wrong(name, "a number", value)

    def items(self, name: str) -> list[Json] | None:
        """An array."""
        value = self._left.pop(name, None)
        return value if value is None or type(value) is list else self._wrong(name, "an array", value)

    def mapping(self, name: str) -> dict[str, Json] | None:
        """An object, as it is."""
        value = self._left.pop(name, None)
        return value if value is None or type(value) is dict else self._wrong(name, "an object", value)

    def fields(self, name: str) -> Fields | None:
        """An object, to be read field by field."""
        value = self.mapping(name)
        return None if value is None else type(self)(value, self.at(name))

    def required(self, name: str) -> str:
        """A string that must be there."""
        value = self.text(name)
        return self._absent(name) if value is None else value

    def filled(self, name: str) -> str:
        """A string that must be there and not be empty."""
        return self.text(name) or self._absent(name)

    def put_back(self, name: str, value: Json) -> None:
        """Return a field, or what was not understood of it, to the rest."""
        self._left[name] = value

    def keep(self, name: str, nested: Fields | None) -> None:
        """Leave what nobody took of a nested object in the rest, by dotted names."""
        for field, value in (nested._left if nested is not None else {}).items():
            self._left[f"{name}.{field}"] = value

    def rest(self) -> Extras:
        """What nobody took; None if that is nothing."""
        left = {name: value for name, value in self._left.items() if value is not None}
        return left or None

    def require(self, name: str) -> BadRequest:
        """The error for a required field that is missing."""
        return BadRequest(f"{self.at(name)} is required", path=self.at(name))

    def _absent(self, name: str) -> str:
        raise self.require(name)

    def _wrong(self, name: str, expected: str, value: Json) -> Any:
        raise BadRequest(f"{self.at(name)} must be {expected}", path=self.at(name))


class LooseFields(Fields):
    """Tolerant: a field of the wrong type reads as absent and stays in the rest."""

    __slots__ = ()

    def __init__(self, value: Json, path: str = "") -> None:
        super().__init__(value if isinstance(value, dict) else {}, path)

    def _absent(self, name: str) -> str:
        return ""

    def _wrong(self, name: str, expected: str, value: Json) -> Any:
        self._left[name] = value
        return None
