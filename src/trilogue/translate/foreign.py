"""What only its own protocol knows, on the way to another one: extras, natives, hosted tools and their history.

Each is carried where the target has a form for it, told in words, dropped and declared, or refused. The tables of
fates belong to the source's codec; this module only applies them.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from trilogue.errors import Unsupported
from trilogue.jsontext.text import dump_text
from trilogue.model import (
    Block,
    ChoiceMode,
    Citation,
    CitationKind,
    Document,
    Extras,
    Finish,
    HostedCall,
    HostedKind,
    HostedResult,
    HostedTool,
    Ledger,
    Native,
    Protocol,
    Request,
    Response,
    SearchResult,
    Text,
    Tool,
    ToolChoice,
    ToolResult,
    Turn,
)
from trilogue.protocols.codec import Codec
from trilogue.protocols.fields.extras import DROP, SILENT, FieldPolicies, FieldPolicy

META = FieldPolicy(loss="resp.meta")
"""of a field of an answer that has no fate of its own"""
_TOOL_OPTION = FieldPolicy(loss="tool.option")
HISTORY_AS_TEXT = "hosted.history_as_text"
_OPTIONAL = (HostedKind.TOOL_SEARCH, HostedKind.ADVISOR)
"""hosted tools that only help the model: without them it does the same work"""
_NAMES = ("type", "id", "call_id")
"""what a note on an item need not say, or says first"""


class Foreign(Struct, frozen=True):
    """One request on its way from one protocol to another."""

    source: Codec
    target: Codec
    ledger: Ledger
    replayable: frozenset[str] = frozenset()
    """ids of the hosted calls that have a result, those of searches with the target's own tokens"""

    def request(self, request: Request) -> Request:
        """The request, but for its turns, with nothing in it that only its source knows and the target cannot write."""
        if request.previous_response is not None:
            raise Unsupported(
                request.where("previous_response"), f"{self.target.protocol.value} keeps no earlier answers"
            )
        if request.extras is not None:
            self._extras(request.extras, "", DROP)
        if not request.tools and request.tool_choice is None:
            return request
        if HostedTool in {type(tool) for tool in request.tools}:
            request = replace(request, tools=tuple(self._tools(request)))
        for tool in request.tools:
            if tool.extras is not None:
                self._extras(tool.extras, tool.path, _TOOL_OPTION)
        if request.tool_choice is not None:
            self._declare_choice(request.tool_choice)
        return self._with_possible_choice(request)

    def _extras(self, extras: Extras, path: str, default: FieldPolicy) -> None:
        if extras is not None:
            declare_extras(extras, self.source.fates, path, self.ledger, default)

    def _tools(self, request: Request) -> Iterator[Tool]:
        alone = not any(map(self._is_carried, request.tools))
        for tool in request.tools:
            if not isinstance(tool, HostedTool) or self._is_carried(tool):
                yield tool
            elif alone and tool.kind not in _OPTIONAL:
                # Nothing else is offered: the client relies on it.
                raise Unsupported(tool.path, f"{self.target.protocol.value} has no tool {tool.type}")
            else:
                self.ledger.add("tool.hosted_dropped", tool.path, tool.type)

    def _is_carried(self, tool: Tool) -> bool:
        return not isinstance(tool, HostedTool) or tool.kind in self.target.hosted_tools

    def _declare_choice(self, choice: ToolChoice) -> None:
        self._extras(choice.extras, choice.path, DROP)
        for ref in (choice.tool, *choice.allowed):
            if ref is not None:
                self._extras(ref.extras, ref.path, DROP)

    def _with_possible_choice(self, request: Request) -> Request:
        """A choice of a hosted tool that was not carried leaves the model free."""
        choice = request.tool_choice
        if choice is None or choice.mode is not ChoiceMode.HOSTED:
            return request
        offered = {tool.kind for tool in request.tools if isinstance(tool, HostedTool)}
        if choice.tool is not None and choice.tool.hosted in offered:
            return request
        self.ledger.add("tool_choice.dropped", choice.path or "tool_choice")
        return replace(request, tool_choice=None)

    def turn(self, turn: Turn) -> None:
        """Declare what only the source knows about a turn as such."""
        self._extras(turn.extras, turn.path, DROP)

    def block(self, block: Block) -> Block | None:
        """The block as the target can write it; None if it has no form there."""
        if block.extras is not None:
            self._extras(block.extras, block.path, DROP)
        if type(block) is HostedCall or type(block) is HostedResult:
            return self._hosted(block)
        if type(block) is Native:
            return self._native(block)
        for inner in _inner(block):
            if inner.extras is not None:
                self._extras(inner.extras, inner.path, DROP)
        return block

    def _hosted(self, block: HostedCall | HostedResult) -> Block | None:
        if block.tool in self.target.history_tools and self._replayable(block):
            return block
        code = "web_search.replay" if isinstance(block, HostedResult) and block.hits else HISTORY_AS_TEXT
        self.ledger.add(code, block.path)
        told = note(block)
        return Text(text=told, path=block.path) if told else None

    def _replayable(self, block: HostedCall | HostedResult) -> bool:
        """Messages takes a call back only together with its result, and searches only with the provider's own token."""
        if self.target.protocol is not Protocol.MESSAGES:
            return True
        return (block.id if isinstance(block, HostedCall) else block.call_id) in self.replayable

    def _native(self, block: Native) -> Block | None:
        fate = self.source.fates.get(block.type, FieldPolicy(loss="native.dropped"))
        if fate.refuse:
            raise Unsupported(block.path, fate.refuse)
        if fate.loss:
            self.ledger.add(fate.loss, block.path, block.type)
        if fate.loss != HISTORY_AS_TEXT:
            return None
        told = {name: value for name, value in block.data.items() if name not in _NAMES and value is not None}
        return Text(text=f"[{block.type}: {dump_text(told)}]", path=block.path)


def declare_extras(
    extras: dict[str, object], fates: FieldPolicies, path: str, ledger: Ledger, default: FieldPolicy
) -> None:
    """Each extra field is a loss, an error, or nothing, as its fate says."""
    for name, value in extras.items():
        fate = fates.get(name)
        if fate is None:
            # What is left of a nested object shares the fate of the object unless it has its own.
            nested = "." in name or "[" in name
            fate = fates.get(name.partition(".")[0].partition("[")[0], default) if nested else default
        if fate.harmless and value in fate.harmless:
            continue
        if fate.refuse:
            raise Unsupported(fate.where(path, name), fate.refuse)
        if fate.loss and fate.loss not in ledger.full:
            ledger.add(fate.loss, fate.where(path, name))


def declare_answer(answer: Response, fates: FieldPolicies, ledger: Ledger) -> None:
    """Declare the fields of a whole answer that only its source knows, in the order in which `SealStage` would."""
    if answer.extras:
        declare_extras(answer.extras, fates, "", ledger, META)
    for block in answer.blocks:
        if block.extras:
            declare_extras(block.extras, fates, block.path, ledger, META)
    declare_end(answer, fates, ledger)


def declare_end(end: Response | Finish, fates: FieldPolicies, ledger: Ledger) -> None:
    """The same of its stop reason and usage."""
    if end.stop.extras:
        declare_extras(end.stop.extras, fates, end.stop.path, ledger, META)
    if end.usage is not None and end.usage.extras:
        declare_extras(_figures(end.usage.extras), fates, "usage", ledger, SILENT)


def _figures(extras: dict[str, object]) -> dict[str, object]:
    """Each figure of usage under its own name: those of one object can differ in what they say."""
    figures: dict[str, object] = {}
    for name, value in extras.items():
        if isinstance(value, dict):
            figures |= {f"{name}.{part}": figure for part, figure in value.items()}
        else:
            figures[name] = value
    return figures


def declare_citation(citation: Citation, path: str, ledger: Ledger) -> None:
    """Declare what a citation says that links have no place for. Those that are no links are dropped as a whole."""
    if citation.kind is not CitationKind.WEB:
        return
    nested = citation.native.get("url_citation")
    for said in (citation.native, nested if isinstance(nested, dict) else {}):
        for name, value in said.items():
            if name not in _OF_LINKS and value is not None:
                ledger.add(META.loss, f"{path}.citations.{name}")


_OF_LINKS = frozenset(
    {"type", "url_citation", "url", "title", "start_index", "end_index", "cited_text", "content", "encrypted_index"}
)
"""what the three protocols say of links, each some of it: carried, or declared by name"""


def _inner(block: Block) -> tuple[Block, ...]:
    """The blocks inside a block."""
    if type(block) is ToolResult:
        return block.content
    if type(block) is Document or type(block) is SearchResult:
        return block.parts
    return ()


def note(block: HostedCall | HostedResult) -> str:
    """What a hosted call did, in words for a model that cannot see it."""
    if isinstance(block, HostedCall):
        return f"[{block.name or block.tool.value}: {block.input or '{}'}]"
    if block.hits:
        return "\n".join(f"[found: {hit.title} {hit.url}]" for hit in block.hits)
    return f"[{block.tool.value} result: {block.error or block.text or 'none'}]"
