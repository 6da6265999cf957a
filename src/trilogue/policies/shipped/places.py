"""Paths and hosts in the arguments of tool calls: whether they are inside the folders and hosts that are allowed.

Programs read paths and URLs in many ways. Here is a strict judge and no parser: what is plainly inside passes, what
leads outside for any program that is known does not, and neither does what cannot be decided. Links in the file system
are unknown here.
"""

from __future__ import annotations

import ntpath
import posixpath
import re
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from urllib.parse import unquote

from trilogue.model import Json
from trilogue.policies.calls import strings_in
from trilogue.policies.folding import fold

TEXT_FIELDS = frozenset(
    {
        *("body", "comment", "content", "contents", "description", "explanation", "filetext", "inserttext", "message"),
        *("newcontent", "newsource", "newstr", "newstring", "note", "oldstr", "oldstring", "prompt", "reason"),
        *("replacement", "summary", "text", "thought", "title"),
    }
)
"""fields that hold text by convention, which is no path; written without `_` and `-`, in small letters"""
HOST_FIELDS = ("address", "domain", "endpoint", "host", "hostname", "href", "link", "origin", "server", "uri", "url")
"""what the names of fields end with that hold a host or a URL"""
_EDGE = " \t\r\n\v\f\"'`\x00"
_TOKENS = re.compile(r"[\s\"'`=;|&<>(){},]+")
_LEADS_OUT = re.compile(
    r"~|\.\.(?:[/\\]|$)|[/\\]+(?:[\w.~*?$%-]|$)|[A-Za-z]:[\\/]|\$|%\w+%|file:|.*[/\\]\.\.(?:[/\\]|$)",
    re.IGNORECASE | re.DOTALL,
)
"""how a word inside of a longer text begins if it is a path that may lead out of a folder"""
_UNKNOWN = re.compile(r"^\$|^%\w+%|\$[{(]|`|\0")
"""what a shell or a program replaces by something that is not known here"""
_SCHEME = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]{1,30}):(?=[/\\])")
_DRIVE = re.compile(r"^[A-Za-z]:(?!\s)|\\")
_PATCHED = re.compile(
    r"^(?:\*\*\* (?:Add|Update|Delete) File: |\*\*\* Move to: |(?:---|\+\+\+) (?:[ab]/)?)(\S[^\t\n]*)", re.MULTILINE
)
_NOWHERE = "/dev/null"


def paths_in(arguments: Json) -> Iterator[str]:
    """Yield all that can be a path: strings and names of fields as a whole, and words in them that look like one."""
    for name, text in strings_in(arguments):
        if _plain_name(name or "") in TEXT_FIELDS:
            continue
        patched = _PATCHED.findall(text)
        if patched:
            # The rest of a patch is the text of files.
            yield from [path.strip() for path in patched if path.strip() != _NOWHERE]
            continue
        yield text
        words = _TOKENS.split(text)
        if len(words) > 1:
            yield from [word for word in words if _LEADS_OUT.match(word) and word != _NOWHERE]


def _plain_name(name: str) -> str:
    return name.casefold().replace("_", "").replace("-", "")


def is_inside(path: str, folders: tuple[str, ...]) -> bool:
    """Return whether a path is in one of the folders, however a program reads it. A relative one is below the first."""
    # Programs may take away spaces and quotes around a path, resolve percent signs, and compose characters.
    forms = {path, path.strip(_EDGE), fold(path).strip()}
    forms |= {unquote(form) for form in forms}
    return all([_is_form_inside(form, folders) for form in forms])


def _is_form_inside(path: str, folders: tuple[str, ...]) -> bool:
    scheme = _SCHEME.match(path)
    if path[:5].casefold() == "file:":
        local = _local(path)
        return local is not None and _is_form_inside(local, folders)
    if scheme is not None and len(scheme["scheme"]) > 1:
        return scheme["scheme"].casefold() in ("http", "https", "ws", "wss")
    if _UNKNOWN.search(path) or path.startswith("~"):
        return any([_is_spelled_below(path, folder) for folder in folders])
    if any([_is_dots(part) for part in re.split(r"[/\\]", path)]):
        return False
    return any([_is_below(path, folder, folders[0]) for folder in folders])


def _is_dots(part: str) -> bool:
    """Return whether a part of a path is only dots and spaces, which Windows shortens to `..`."""
    return part not in ("", ".", "..") and "." in part and not part.strip(". ")


def _local(url: str) -> str | None:
    """Return the path of a `file:` URL, or None if it is on another machine."""
    rest = re.sub(r"[\t\r\n]", "", url[5:]).replace("\\", "/")
    if rest.startswith("//"):
        host, slash, tail = rest[2:].partition("/")
        if host.casefold() not in ("", "localhost", "127.0.0.1"):
            return None
        rest = slash + tail
    path = unquote(re.split(r"[?#]", rest)[0])
    # A second round would find what was encoded twice.
    return None if "%" in path else "/" + path.lstrip("/")


def _is_spelled_below(path: str, folder: str) -> bool:
    """Return whether a path begins as a folder is spelled, with the same `~` or variable, and stays below it."""
    rest = path[len(folder.rstrip("/")) :]
    begins = folder[:1] in ("~", "$", "%") and path.startswith(folder.rstrip("/")) and rest[:1] in ("", "/")
    return begins and not _UNKNOWN.search(rest) and not _LEADS_UP.search(rest)


_LEADS_UP = re.compile(r"(?:^|[/\\])\.\.(?:[/\\]|$)|\\")


def _is_below(path: str, folder: str, base: str) -> bool:
    if _DRIVE.search(folder) or _DRIVE.search(path):
        full = ntpath.normcase(ntpath.normpath(ntpath.join(base, path)))
        top = ntpath.normcase(ntpath.normpath(folder))
        return full == top or full.startswith(top.rstrip("\\") + "\\")
    full, top = posixpath.normpath(posixpath.join(base, path)), posixpath.normpath(folder)
    # normpath keeps two leading slashes, which mean the same as one on every system in use.
    full = "/" + full.lstrip("/") if full.startswith("//") else full
    return full == top or full.startswith(top.rstrip("/") + "/")


_URL = re.compile(
    r"[A-Za-z][A-Za-z0-9+.-]{0,30}:[/\\]+|(?<![A-Za-z0-9])(?:https?|wss?|ftp):(?=[^\s/\\])", re.IGNORECASE
)
"""how a URL begins; browsers take any number of slashes, in both directions, and none"""
_AUTHORITY = re.compile(
    r"(?P<host>[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*)\.?(?::\d{0,5})?(?:$|[/?#\s<>|]|[.,:;!\"'`)\]}]+(?=[\s<>|]|$))"
)
"""a host with a port, and what may stand behind it; everything else is read in different ways by different programs"""
_LONGEST_HOST = 300
_CLOSING = {'"': '"', "'": "'", "`": "`", "(": ")", "[": "]", "{": "}", "<": ">"}
_QUADS = re.compile(r"(?:(?:0|[1-9]\d{0,2})\.){3}(?:0|[1-9]\d{0,2})")
_NUMBER = re.compile(r"(?:\d+|0[xX][0-9A-Fa-f]*)")
_BARE = re.compile(r"[/\\]{2,}\S+")
UNREADABLE = ""
"""stands for a host that cannot be decided, which no rule allows"""


def hosts_in(arguments: Json) -> Iterator[str]:
    """Yield the hosts in arguments: of every URL in any string, and of fields that hold a host."""
    for name, text in strings_in(arguments):
        found = list(_hosts_of_text(text))
        if not found and text.strip() and _plain_name(name or "").endswith(HOST_FIELDS):
            found = [host_of(text)]
        yield from found


def _hosts_of_text(text: str) -> Iterator[str]:
    seen = fold(text)
    for found in _URL.finditer(seen):
        # A URL in quotes or brackets ends with them.
        closing = _CLOSING.get(seen[found.start() - 1 : found.start()])
        rest = seen[found.end() : found.end() + _LONGEST_HOST]
        rest = rest.partition(closing)[0] if closing else rest
        yield _read(rest) if _is_usual(found.group()) else UNREADABLE
    # The text may be one URL. Programs leave out line breaks and tabs, and take what is before an @ for a user.
    whole = re.sub(r"[\t\r\n]", "", seen.strip(_EDGE))
    begin = _URL.match(whole)
    if begin is None:
        if _BARE.fullmatch(whole):
            yield host_of(whole)
    elif whole != seen or "@" in whole:
        authority = re.split(r"[/\\?#]", whole[begin.end() :], maxsplit=1)[0]
        yield UNREADABLE if "@" in authority else _read(authority)


def _is_usual(begin: str) -> bool:
    return begin.endswith("://") and not begin.endswith(":///")


def host_of(text: str) -> str:
    """Return the host of a text that is a URL or begins with a host; UNREADABLE if that cannot be decided."""
    plain = re.sub(r"[\t\r\n]", "", fold(text).strip(_EDGE))
    found = _URL.match(plain)
    if found is not None:
        return _read(plain[found.end() :]) if _is_usual(found.group()) else UNREADABLE
    return _read(plain.lstrip("/")) if "\\" not in plain else UNREADABLE


def _read(rest: str) -> str:
    """Return the host that a text begins with, in small letters; UNREADABLE if programs would read different ones."""
    found = _AUTHORITY.match(rest)
    if found is None:
        return UNREADABLE
    host = found["host"].casefold()
    last = host.rpartition(".")[2]
    # Programs read 127.1, 0x7f000001 and 017700000001 as addresses.
    return host if _QUADS.fullmatch(host) or not _NUMBER.fullmatch(last) else UNREADABLE


def is_allowed_host(host: str, allowed: Iterable[str]) -> bool:
    """Return whether a host fits one of the patterns. `*.example.com` does not include `example.com` itself."""
    return bool(host) and any([fnmatchcase(host, pattern.casefold()) for pattern in allowed])
