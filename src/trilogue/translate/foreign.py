"""What only its own protocol has, on the way to another one: extras, native blocks, hosted tools and their history.

Each is carried over if the target has a form for it, or written as text, dropped and declared, or refused. The policies
are tables of the source's codec; this module only applies them.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from trilogue.base.json_text import dump_text
from trilogue.errors import Unsupported
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
from trilogue.protocols.fields import DROP, SILENT, FieldPolicies, FieldPolicy
from trilogue.protocols.parts import hosted_note
from trilogue.protocols.sealed import HISTORY_AS_TEXT

META = FieldPolicy(loss="resp.meta")
"""the policy for a field of a response that has none of its own"""
_TOOL_OPTION = FieldPolicy(loss="tool.option")
_OPTIONAL = (HostedKind.TOOL_SEARCH, HostedKind.ADVISOR)
"""hosted tools that only help the model: it can do the same work without them"""
_NAMES = ("type", "id", "call_id")
"""fields that the text for an item leaves out, or puts first"""


class Foreign(Struct, frozen=True):
    """The step that adapts one request from its source protocol to its target protocol."""

    source: Codec
    target: Codec
    ledger: Ledger
    replayable: frozenset[str] = frozenset()
    """the ids of the hosted calls that have a result; of searches only those with the target's own tokens"""

    def request(self, request: Request) -> Request:
        """Return the request, except for its turns, without what only its source has and the target cannot write.

        Raises `Unsupported` for state of an earlier response, and for a hosted tool that is the only tool offered.
        """
        # The earlier turns are stored at the provider, so translating the rest would silently lose the conversation.
        if request.previous_response is not None:
            raise Unsupported(
                request.where("previous_response"), f"{self.target.protocol.value} keeps no earlier responses"
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
            declare_extras(extras, self.source.fields.policies, path, self.ledger, default)

    def _tools(self, request: Request) -> Iterator[Tool]:
        alone = not any(map(self._is_carried, request.tools))
        for tool in request.tools:
            if not isinstance(tool, HostedTool) or self._is_carried(tool):
                yield tool
            elif alone and tool.kind not in _OPTIONAL:
                # No other tool is offered, so the client relies on this one.
                raise Unsupported(tool.path, f"{self.target.protocol.value} has no tool {tool.type}")
            else:
                self.ledger.add("tool.hosted_dropped", tool.path, tool.type)

    def _is_carried(self, tool: Tool) -> bool:
        return not isinstance(tool, HostedTool) or tool.kind in self.target.tools.hosted

    def _declare_choice(self, choice: ToolChoice) -> None:
        self._extras(choice.extras, choice.path, DROP)
        for ref in (choice.tool, *choice.allowed):
            if ref is not None:
                self._extras(ref.extras, ref.path, DROP)

    def _with_possible_choice(self, request: Request) -> Request:
        """Return the request without a choice of a hosted tool that was left out; the model then chooses freely."""
        choice = request.tool_choice
        if choice is None or choice.mode is not ChoiceMode.HOSTED:
            return request
        offered = {tool.kind for tool in request.tools if isinstance(tool, HostedTool)}
        if choice.tool is not None and choice.tool.hosted in offered:
            return request
        self.ledger.add("tool_choice.dropped", choice.path or "tool_choice")
        return replace(request, tool_choice=None)

    def turn(self, turn: Turn) -> None:
        """Declare the fields of a turn that only the source has."""
        self._extras(turn.extras, turn.path, DROP)

    def block(self, block: Block) -> Block | None:
        """Return the block as the target can write it; None if it has no form there."""
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
        if block.tool in self.target.tools.in_history and self._replayable(block):
            return block
        code = "web_search.replay" if isinstance(block, HostedResult) and block.hits else HISTORY_AS_TEXT
        self.ledger.add(code, block.path)
        text = hosted_note(block)
        return Text(text=text, path=block.path) if text else None

    def _replayable(self, block: HostedCall | HostedResult) -> bool:
        """Return whether the target accepts a hosted call or its result.

        Messages accepts a call only together with its result, and searches only with the provider's own token.
        """
        if not self.target.tools.in_pairs:
            return True
        return (block.id if isinstance(block, HostedCall) else block.call_id) in self.replayable

    def _native(self, block: Native) -> Block | None:
        policy = self.source.fields.policies.get(block.type, FieldPolicy(loss="native.dropped"))
        if policy.refuse:
            raise Unsupported(block.path, policy.refuse)
        if policy.loss:
            self.ledger.add(policy.loss, block.path, block.type)
        # Shell and patch calls become text: a model that does not see what was done does it again.
        if policy.loss != HISTORY_AS_TEXT:
            return None
        fields = {name: value for name, value in block.data.items() if name not in _NAMES and value is not None}
        return Text(text=f"[{block.type}: {dump_text(fields)}]", path=block.path)


def declare_extras(
    extras: dict[str, object], policies: FieldPolicies, path: str, ledger: Ledger, default: FieldPolicy
) -> None:
    """Declare or refuse each extra field, as its policy says. Raises `Unsupported` for a refused one."""
    for name, value in extras.items():
        policy = policies.get(name)
        if policy is None:
            # A field inside a nested object has the policy of that object unless it has its own.
            nested = "." in name or "[" in name
            policy = policies.get(name.partition(".")[0].partition("[")[0], default) if nested else default
        # SDKs send many defaults explicitly; those change nothing in another protocol.
        if policy.harmless and value in policy.harmless:
            continue
        if policy.refuse:
            raise Unsupported(policy.where(path, name), policy.refuse)
        # Computing the path of thousands of unknown fields is the expensive part, so check first.
        if policy.loss and policy.loss not in ledger.full:
            ledger.add(policy.loss, policy.where(path, name))


def declare_response(response: Response, policies: FieldPolicies, ledger: Ledger) -> None:
    """Declare the fields of a complete response that only its source has, in the same order as `SealStage`."""
    if response.extras:
        declare_extras(response.extras, policies, "", ledger, META)
    for block in response.blocks:
        if block.extras:
            declare_extras(block.extras, policies, block.path, ledger, META)
    declare_end(response, policies, ledger)


def declare_end(end: Response | Finish, policies: FieldPolicies, ledger: Ledger) -> None:
    """Declare the fields of a stop reason and of usage that only the source has."""
    if end.stop.extras:
        declare_extras(end.stop.extras, policies, end.stop.path, ledger, META)
    if end.usage is not None and end.usage.extras:
        declare_extras(_figures(end.usage.extras), policies, "usage", ledger, SILENT)


def _figures(extras: dict[str, object]) -> dict[str, object]:
    """Return each usage figure under its own name: the figures of one object can have different policies."""
    figures: dict[str, object] = {}
    for name, value in extras.items():
        if isinstance(value, dict):
            figures |= {f"{name}.{part}": figure for part, figure in value.items()}
        else:
            figures[name] = value
    return figures


def declare_citation(citation: Citation, path: str, ledger: Ledger) -> None:
    """Declare the fields of a citation that links have no place for.

    Citations without a link are not declared here: they are dropped as a whole.
    """
    # Encoders drop and declare these citations.
    if citation.kind is not CitationKind.WEB:
        return
    nested = citation.native.get("url_citation")
    for fields in (citation.native, nested if isinstance(nested, dict) else {}):
        for name, value in fields.items():
            if name not in _LINK_FIELDS and value is not None:
                ledger.add(META.loss, f"{path}.citations.{name}")


_LINK_FIELDS = frozenset(
    {"type", "url_citation", "url", "title", "start_index", "end_index", "cited_text", "content", "encrypted_index"}
)
"""the fields of links in the three protocols; they are carried over, or declared under their own code"""


def _inner(block: Block) -> tuple[Block, ...]:
    """Return the blocks inside a block."""
    if type(block) is ToolResult:
        return block.content
    if type(block) is Document or type(block) is SearchResult:
        return block.parts
    return ()
