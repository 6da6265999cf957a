"""Paths and hosts in the arguments of tool calls: whether they are inside the folders and hosts that are allowed."""

from __future__ import annotations

import ntpath
import posixpath
import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from urllib.parse import unquote, urlsplit

from trilogue.model import Json
from trilogue.policies.calls import strings_in

PATH_FIELDS = frozenset({"path", "file", "filename", "filepath", "dir", "directory", "folder", "cwd", "workdir"})
"""fields that hold a path, together with all whose name ends with `path`"""
HOST_FIELDS = frozenset({"host", "hostname", "domain", "url", "uri", "server"})
_URL = re.compile(r"\b[a-z][a-z0-9+.-]{1,20}://[^\s\"'<>`|\\)\]}]+", re.IGNORECASE)
_DRIVE = re.compile(r"^[A-Za-z]:|\\")


def paths_in(arguments: Json) -> Iterator[str]:
    """Yield the strings in arguments that are paths, by the names of their fields."""
    for name, text in strings_in(arguments):
        plain = (name or "").casefold().replace("_", "")
        if plain in PATH_FIELDS or plain.endswith("path"):
            yield text


def is_inside(path: str, folders: tuple[str, ...]) -> bool:
    """Return whether a path is in one of the folders. A relative path is taken from the first folder."""
    # The shell and most tools expand a tilde, so it leads out of the folder.
    if path.startswith("~") or "\0" in path:
        return any([path == folder or path.startswith(f"{folder.rstrip('/')}/") for folder in folders])
    return any([_is_below(path, folder, folders[0]) for folder in folders])


def _is_below(path: str, folder: str, base: str) -> bool:
    if _DRIVE.search(folder) or _DRIVE.search(path):
        full = ntpath.normcase(ntpath.normpath(ntpath.join(base, path)))
        top = ntpath.normcase(ntpath.normpath(folder))
        return full == top or full.startswith(top.rstrip("\\") + "\\")
    full, top = posixpath.normpath(posixpath.join(base, path)), posixpath.normpath(folder)
    # normpath keeps two leading slashes, which mean the same as one on every system in use.
    full = "/" + full.lstrip("/") if full.startswith("//") else full
    return full == top or full.startswith(top.rstrip("/") + "/")


def hosts_in(arguments: Json) -> Iterator[str]:
    """Yield the hosts in arguments: of every URL in any string, and of fields that hold a host."""
    for name, text in strings_in(arguments):
        found = [host_of(match.group()) for match in _URL.finditer(text)]
        if not found and (name or "").casefold() in HOST_FIELDS and text:
            found = [host_of(f"//{text.strip().lstrip('/')}")]
        yield from found


def host_of(url: str) -> str:
    """Return the host of a URL in lower case; "" if it has none, which no rule allows."""
    try:
        return unquote(urlsplit(url).hostname or "").rstrip(".").casefold()
    except ValueError:
        return ""


def is_allowed_host(host: str, allowed: tuple[str, ...]) -> bool:
    """Return whether a host fits one of the patterns. `*.example.com` does not include `example.com` itself."""
    return any([fnmatchcase(host, pattern.casefold()) for pattern in allowed])
