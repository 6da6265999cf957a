"""The policy `tools`: which tools the model may call, and with which arguments.

Models cut arguments off, forget a bracket, or write Python instead of JSON, and some clients repair that. A rule that
only looked at the text as it is would miss a command behind a quotation mark. So arguments that are not a JSON object
are read in every way in which a client might still make sense of them.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator

from msgspec import Struct
from msgspec.structs import replace

from trilogue.base.json_text import parse_object
from trilogue.model import Block, CustomTool, FunctionTool, Json, Request, Tool
from trilogue.policies.calls import Call, call_of, names_of, strings_in
from trilogue.policies.folding import fold
from trilogue.policies.policy import Context, Policy, PolicySettings
from trilogue.policies.shipped.action import ActionSettings, SettingsProblem, compiled_all, fits_name, forbid
from trilogue.policies.shipped.commands import CommandRule, forbidden_by
from trilogue.policies.shipped.json_schema import ArgumentSchema
from trilogue.policies.shipped.places import host_of, hosts_in, is_allowed_host, is_inside, paths_in
from trilogue.policies.verdicts import PASS, Rewrite

_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)(?:"|\\?$)' + r"|'((?:[^'\\]|\\.)*)(?:'|\\?$)", re.DOTALL)
_MARKS = re.compile(r"[{}\[\]\":,'`]")
_CLOSING = {"{": "}", "[": "]"}


class ToolRule(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A rule for the arguments of some tools. `argument`: the field to look at; without it, all strings.

    `deny`: patterns that must not be found. `allow`: patterns of which one must be found in each string. `commands`:
    shell commands that must not run. `inside`: folders that paths must be in. `hosts`: hosts that URLs must have.
    `schema`: a JSON Schema that the arguments must fit.
    """

    tools: tuple[str, ...] = ("*",)
    argument: str | None = None
    deny: tuple[str, ...] = ()
    allow: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    inside: tuple[str, ...] = ()
    hosts: tuple[str, ...] | None = None
    schema: dict[str, Json] | None = None
    reason: str = ""


class ToolsSettings(ActionSettings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of `tools`. `allow`, `deny`: names, with `*` for any text. `hide`: do not offer denied tools."""

    allow: tuple[str, ...] | None = None
    deny: tuple[str, ...] = ()
    rules: tuple[ToolRule, ...] = ()
    hide: bool = False


class Tools(Policy):
    """Allows and denies tool calls by name and by arguments."""

    Settings = ToolsSettings
    _default_name = "Tools"
    calls = True

    def __init__(self, settings: PolicySettings | None = None) -> None:
        chosen = settings if isinstance(settings, ToolsSettings) else ToolsSettings()
        super().__init__(chosen)
        self._settings = chosen
        self._rules = [_CheckedRule(rule, f"rules[{number}]") for number, rule in enumerate(chosen.rules)]

    def on_request(self, request: Request, context: Context) -> object:
        """Take denied tools out of the request, if `hide` says so."""
        if not self._settings.hide:
            return PASS
        offered = tuple([tool for tool in request.tools if not self._is_hidden(tool)])
        if len(offered) == len(request.tools):
            return PASS
        names = {tool.name for tool in offered if isinstance(tool, FunctionTool | CustomTool)}
        choice = request.tool_choice
        if choice and ((choice.tool and choice.tool.name not in names) or choice.allowed or not offered):
            choice = None
        hidden = len(request.tools) - len(offered)
        return Rewrite(replace(request, tools=offered, tool_choice=choice), reason=f"{hidden} tools not offered")

    def on_block(self, block: Block, context: Context) -> object:
        """Return PASS for a call whose name and arguments are allowed, otherwise the verdict that the settings name."""
        call = call_of(block)
        if call is None:
            return PASS
        reason = self._block_problem(names_of(block)) or self._argument_problem(call, names_of(block))
        return forbid(self._settings, f"The call of {call.name}", reason) if reason else PASS

    def _block_problem(self, names: tuple[str, ...]) -> str:
        """Return why a call with these names is forbidden: one of them is denied, or none is allowed."""
        if any([fits_name(self._settings.deny, name) for name in names]):
            return "the tool is denied"
        return "" if any([not self._name_problem(name) for name in names]) else "the tool is not allowed"

    def _is_hidden(self, tool: Tool) -> bool:
        return isinstance(tool, FunctionTool | CustomTool) and bool(self._name_problem(tool.name))

    def _name_problem(self, name: str) -> str:
        if fits_name(self._settings.deny, name):
            return "the tool is denied"
        if self._settings.allow is not None and not fits_name(self._settings.allow, name):
            return "the tool is not allowed"
        return ""

    def _argument_problem(self, call: Call, names: tuple[str, ...]) -> str:
        for rule in self._rules:
            concerned = any([fits_name(rule.tools, name) for name in names])
            problem = rule.problem(call) if concerned else ""
            if problem:
                return rule.reason or problem
        return ""


class _CheckedRule:
    """A rule with its patterns compiled. Problems are named by the setting, and never quote arguments."""

    def __init__(self, rule: ToolRule, setting: str) -> None:
        self.tools = rule.tools
        self.reason = rule.reason
        self._argument = rule.argument
        self._deny = compiled_all(rule.deny, f"{setting}.deny")
        self._allow = compiled_all(rule.allow, f"{setting}.allow")
        if any([not command.strip() for command in rule.commands]):
            raise SettingsProblem(f"{setting}.commands: a command is empty")
        self._commands = tuple([CommandRule.parse(command) for command in rule.commands])
        self._written = rule.commands
        self._inside = rule.inside
        self._hosts = rule.hosts
        self._schema = None if rule.schema is None else ArgumentSchema(rule.schema, f"{setting}.schema")

    def problem(self, call: Call) -> str:
        """Return why the rule forbids a call, or ""."""
        if call.parsed is None:
            return self._raw_problem(call.text)
        if self._schema and not self._schema.allows(call.parsed):
            return "the arguments do not fit the schema"
        looked_at = call.parsed
        if self._argument is not None:
            looked_at = {self._argument: call.parsed[self._argument]} if self._argument in call.parsed else {}
        # The name of the argument itself is not a value of it.
        strings = [text for name, text in strings_in(looked_at) if name is not None or self._argument is None]
        problem = self._text_problem(strings) or self._denied(word_lists(looked_at))
        return problem or self._place_problem(looked_at, strings)

    def _raw_problem(self, text: str) -> str:
        """Judge arguments that are not a JSON object as the text that they are."""
        if self._allow or self._inside or self._schema:
            return "the arguments are not a JSON object"
        texts = raw_texts(text)
        if self._hosts is None:
            return self._denied(texts)
        # In JSON, a slash may have a backslash in front.
        read = [*[one.replace("\\/", "/") for one in texts], completed(text)]
        hosts = [host for one in read for host in hosts_in(one)]
        return self._denied(texts) or self._host_problem(hosts)

    def _text_problem(self, strings: list[str]) -> str:
        for text in strings:
            if self._allow and not any([pattern.search(text) for pattern in self._allow]):
                return "the arguments match no allowed pattern"
        return self._denied(strings)

    def _denied(self, texts: Iterable[str]) -> str:
        # A client may take away what cannot be seen.
        for text in dict.fromkeys([form for given in texts for form in (given, fold(given))]):
            if any([pattern.search(text) for pattern in self._deny]):
                return "the arguments match a denied pattern"
            number = forbidden_by(text, self._commands)
            if number is not None:
                return f"the command {self._written[number]} is denied"
        return ""

    def _place_problem(self, arguments: dict[str, Json], strings: list[str]) -> str:
        if self._inside:
            paths = list(paths_in(arguments)) if self._argument is None else strings
            if not all([is_inside(path, self._inside) for path in paths]):
                return "a path is outside of the allowed folders"
        if self._hosts is None:
            return ""
        hosts = list(hosts_in(arguments))
        if self._argument is not None and not hosts:
            hosts = [host_of(text) for text in strings]
        return self._host_problem(hosts)

    def _host_problem(self, hosts: list[str]) -> str:
        if self._hosts is None or all([is_allowed_host(host, self._hosts) for host in hosts]):
            return ""
        return "a host is not allowed"


def raw_texts(text: str) -> list[str]:
    """Return the text itself, the quoted texts in it, those as the words of one command, and the rest without marks."""
    quoted = [_unquoted(found[1] if found[1] is not None else found[2]) for found in _QUOTED.finditer(text)]
    return [text, *quoted, shlex.join(quoted), _MARKS.sub("\n", text)]


def completed(text: str) -> dict[str, Json] | None:
    """Return the object that the text begins, with its quotation marks and brackets closed; None if it is not one."""
    return parse_object(text + _missing(text))


def word_lists(value: Json) -> Iterator[str]:
    """Yield each list of strings inside a JSON value as one command: some tools take the words of a command."""
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            waiting.extend(item.values())
        elif isinstance(item, list):
            if item and all([isinstance(word, str) for word in item]):
                yield shlex.join(item)
            waiting.extend(item)


def _unquoted(text: str) -> str:
    """Return a quoted text with its escapes resolved, if they are those of JSON."""
    read = parse_object(f'{{"text":"{text}"}}')
    return text if read is None else str(read["text"])


def _missing(text: str) -> str:
    """Return the quotation mark and the brackets that are still open at the end."""
    closing: list[str] = []
    inside = escaped = False
    for character in text:
        if escaped:
            escaped = False
        elif inside:
            inside, escaped = character != '"', character == "\\"
        elif character == '"':
            inside = True
        elif character in _CLOSING:
            closing.append(_CLOSING[character])
        elif closing and character == closing[-1]:
            closing.pop()
    # A backslash at the end escapes the next character.
    return ("\\" if escaped else "") + ('"' if inside else "") + "".join(reversed(closing))
