"""Complete the providers of a configuration file from the presets of their names, before the file is read by its types.

In: the plain data of one provider. Out: the same with protocol, addresses, key and quirks filled in where the file says
nothing, and what is wrong with it. What the file sets is never changed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from trilogue.base.problems import quote_key, suggest
from trilogue.model import Protocol
from trilogue.vendors.table import PRESETS
from trilogue.vendors.vendor import Parameter, Preset

_PARAMETER = re.compile(r"[A-Za-z0-9][A-Za-z0-9.:_-]{0,99}")
PARAMETERS = ("resource", "region", "project")
"""the settings that are parts of the addresses of presets"""

_NO_PRESET = "is part of the address of a preset, and this provider has none"

Raw = dict[str, Any]
Problems = list[tuple[str, str]]
"""pairs of a setting of the provider, or "" for all of it, and what is wrong with it"""


class Completed(NamedTuple):
    """A provider as plain data, and what is wrong with it."""

    data: Any
    problems: Problems


def complete_provider(name: str, data: Any, environ: Mapping[str, str]) -> Completed:
    """Return a provider of a file with what its preset knows.

    The preset is the one that `preset` names, else the one with the provider's name, unless the provider has a protocol
    and an address of its own. An entry without a value is an empty one.
    """
    raw = {} if data is None else data
    if not isinstance(raw, dict):
        return Completed(data, [])
    named = raw.get("preset")
    if named is not None and (not isinstance(named, str) or named not in PRESETS):
        problem = ("preset", f"there is no such preset{_meant(named, name)}; `trilogue presets` lists them")
        return Completed({"protocol": next(iter(Protocol)).value, **raw}, [problem])
    preset = PRESETS.get(named or name)
    if named is None and raw.get("protocol") and raw.get("base_url"):
        preset = None
    if preset is None:
        return Completed(data, [(one, _NO_PRESET) for one in PARAMETERS if one in raw])
    return _complete(preset, raw, environ)


def preset_hint(name: str) -> str:
    """Return what to add to the problem of a provider that lacks what a preset would give."""
    return f", because {quote_key(name)} is not the name of a preset{_meant(name)}"


def _meant(*names: Any) -> str:
    close = next((one for name in names if isinstance(name, str) and (one := suggest(name, PRESETS))), None)
    return f' (did you mean "{close}"?)' if close else ""


def _complete(preset: Preset, raw: Raw, environ: Mapping[str, str]) -> Completed:
    own = raw.get("base_url")
    given = _protocol(raw.get("protocol"))
    values, problems = _values(preset, raw, environ) if not own else ({}, [])
    if problems:
        return Completed(_placeholder(preset, raw), problems)
    if own:
        filled: Raw = _at_own_address(preset, raw)
    elif given is not None and given not in preset.urls:
        spoken = " and ".join(protocol.short for protocol in preset.urls)
        text = f"{preset.name} does not speak {given.short}; it speaks {spoken}"
        return Completed(_placeholder(preset, raw), [("protocol", text)])
    else:
        filled = _at_known_addresses(preset.addresses(values), given)
    if preset.bearer:
        filled["auth"] = "bearer"
    if preset.vendor:
        filled["vendor"] = preset.vendor
    if not own or _is_host_of(preset, own):
        filled |= _accounts(preset, environ)
    kept = {name: value for name, value in raw.items() if value is not None}
    return Completed({**preset.settings, **filled, **kept, "preset": preset.name}, [])


def _protocol(value: Any) -> Protocol | None:
    try:
        return Protocol.parse(value) if isinstance(value, str) else None
    except ValueError:
        return None


def _values(preset: Preset, raw: Raw, environ: Mapping[str, str]) -> tuple[dict[str, str], Problems]:
    """Return the values of the parameters of a preset, and which are missing or not valid."""
    values, problems = {}, []
    for parameter in preset.parameters:
        given = raw.get(parameter.name)
        value = parameter.value(environ) if given is None else given
        if not value:
            problems.append((parameter.name, _missing(parameter)))
        elif not isinstance(value, str) or not _PARAMETER.fullmatch(value):
            problems.append((parameter.name, "must consist of letters, digits, dots, dashes and underscores"))
        else:
            values[parameter.name] = value
    known = {parameter.name for parameter in preset.parameters}
    problems += [(one, f"is not part of the address of {preset.name}") for one in PARAMETERS if one in set(raw) - known]
    return values, problems


def _missing(parameter: Parameter) -> str:
    variables = " or ".join(parameter.variables)
    return f"is required: {parameter.what}" + (f"; or set {variables}" if variables else "")


def _placeholder(preset: Preset, raw: Raw) -> Raw:
    """Return a provider that can be read on, so that its other problems are found as well."""
    kept = {name: value for name, value in raw.items() if name != "protocol"}
    return {"protocol": preset.protocol.value, **kept}


def _at_own_address(preset: Preset, raw: Raw) -> Raw:
    """Return the protocols at an address that the file names: all, if the vendor too has them at one address."""
    if raw.get("protocol"):
        return {}
    others = list(preset.urls)[1:] if preset.one_address else []
    return {"protocol": preset.protocol.value, "also_speaks": [one.value for one in others]}


def _at_known_addresses(urls: Mapping[Protocol, str], given: Protocol | None) -> Raw:
    """Return the protocols and their addresses, only the given protocol if there is one."""
    first = given or next(iter(urls))
    others = {} if given is not None else {one: url for one, url in urls.items() if one is not first}
    return {
        "protocol": first.value,
        "base_url": urls[first],
        "also_speaks": [one.value for one, url in others.items() if url == urls[first]],
        "base_urls": {one.value: url for one, url in others.items() if url != urls[first]},
    }


def _accounts(preset: Preset, environ: Mapping[str, str]) -> Raw:
    """Return the account with the vendor's key. A server on this machine may need none."""
    if preset.command:
        return {"accounts": [f"cmd:{preset.command}"]}
    if not preset.variable or (preset.port and not environ.get(preset.variable, "").strip()):
        return {}
    return {"accounts": [f"env:{preset.variable}"]}


def _is_host_of(preset: Preset, url: Any) -> bool:
    """Return whether an address is the vendor's: its key must not go to another one by accident."""
    try:
        host = urlsplit(url).hostname or "" if isinstance(url, str) else ""
    except ValueError:
        return False
    known = {urlsplit(one).hostname or "" for one in preset.urls.values() if "{" not in one}
    return any(host == one or host.endswith(f".{one}") for one in known)
