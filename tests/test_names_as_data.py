"""Names of classes that are data: they are stored, compared, logged or shown, so a class that is renamed keeps them.

The values are written out here and looked for in what the code does, or in all of its source text. No test depends on
where a module is. A name that has to change is a change for users: CHANGELOG.md says so, and stored data stays
readable.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
from msgspec import Struct

import trilogue
from tests.definitions import module_with
from tests.public_surface import resolved
from tests.test_layers import MODULES, ROOT_PACKAGE, Module
from trilogue import model as m
from trilogue.policies import Policy, PolicyRun, PolicySettings, judge_response, load_policy, phrase_scan


def words(text: str) -> set[str]:
    return set(text.split())


SCHEMA = Path(__file__).resolve().parent.parent / "docs" / "trilogue.schema.json"

# Records of accounts: the kind and the tag in the JSON are the same name, written twice.


class Kept(NamedTuple):
    """One record as it is in a state file."""

    kind: str
    key: str
    value: bytes


RECORDS = (
    Kept(
        "Cooled",
        "p\na\n\nhard",
        b'{"type":"Cooled","provider":"p","account":"a","model":"","until":60.0,"soft":false,'
        b'"why":"rate_limited","failures":1}',
    ),
    Kept(
        "CooledModel",
        "p\na\nrare\nsoft",
        b'{"type":"Cooled","provider":"p","account":"a","model":"rare","until":60.0,"soft":true,'
        b'"why":"server_error","failures":2}',
    ),
    Kept(
        "Switched",
        "p\na",
        b'{"type":"Switched","provider":"p","account":"a","by":"hand","probe_at":0.0,"probes":0,"why":"by_hand",'
        b'"credential":"c"}',
    ),
    Kept(
        "Erred",
        "p\na",
        b'{"type":"Erred","provider":"p","account":"a","why":"rate_limited","status":429,"at":1.0,"text":"t"}',
    ),
    Kept("Adjusted", "p\na", b'{"type":"Adjusted","provider":"p","account":"a","adjust":5.0}'),
    Kept("Bound", "p\nk", b'{"type":"Bound","provider":"p","key":"k","account":"a","at":1.0}'),
    Kept("Learned", "p\nm", b'{"type":"Learned","provider":"p","model":"m","remedies":[]}'),
    Kept(
        "Tally",
        "p\na\nworker-1",
        b'{"type":"Tally","provider":"p","account":"a","ok":3,"failed":1,"spent":2.0,"in_flight":1}',
    ),
)
TAGS = {"Adjusted", "Bound", "Cooled", "Erred", "Learned", "Switched", "Tally"}
KEPT_KINDS = {"Bound", "Cooled", "CooledModel", "Learned"}


def written_again(record: Kept) -> Kept | None:
    """Return a record as it is written after it was read; None if it is not known."""
    records, store = module_with("to_records", "to_change"), module_with("StoredRecord", "Retention")
    change = records.to_change(store.StoredRecord(record.kind, record.key, record.value, 1.0))
    if change is None:
        return None
    first = next(iter(records.to_records([change], "worker-1", 1.0)))
    return Kept(first.kind, first.key, first.value)


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.kind)
def test_record_of_an_account_is_written_as_it_was(record: Kept) -> None:
    assert written_again(record) == record


def test_record_of_another_name_is_not_known() -> None:
    assert written_again(Kept("Frozen", "p\na", b'{"type":"Frozen","provider":"p","account":"a"}')) is None
    of_another_kind = RECORDS[0]._replace(kind="Frozen")
    assert written_again(of_another_kind) != of_another_kind


def test_kinds_that_are_pruned_are_those_that_are_written() -> None:
    assert set(module_with("RETENTION", "to_records").RETENTION) == KEPT_KINDS <= {record.kind for record in RECORDS}


def tags(modules: list[Module]) -> set[str]:
    """Return the tags of all structs, as they are written: one that is made of the class's name has no quotes."""
    return {
        ast.unparse(keyword.value)
        for module in modules
        for node in ast.walk(module.tree)
        if isinstance(node, ast.ClassDef)
        for keyword in node.keywords
        if keyword.arg == "tag"
    }


def test_every_tag_is_written_out() -> None:
    assert tags(MODULES) == {repr(tag) for tag in TAGS}
    assert tags([made('class A(Struct, tag=True): ...\nclass B(Struct, tag="C"): ...')]) == {"True", "'C'"}


# Neutral values: in records of policies, comparisons, losses, traces, and notes that models read.

SOURCE = m.Source(kind=m.SourceKind.URL, value="https://a.example/x", media_type="image/png")
BLOCKS: dict[str, m.Block] = {
    "Audio": m.Audio(id="a"),
    "Document": m.Document(source=SOURCE),
    "HostedCall": m.HostedCall(id="h", tool=m.HostedKind.WEB_SEARCH),
    "HostedResult": m.HostedResult(call_id="h", tool=m.HostedKind.WEB_SEARCH),
    "Image": m.Image(source=SOURCE),
    "Native": m.Native(type="t", data={"type": "t"}),
    "Reasoning": m.Reasoning(raw=("thought",)),
    "Refusal": m.Refusal(text="no"),
    "SearchResult": m.SearchResult(source="s", title="t"),
    "Text": m.Text(text="words"),
    "ToolCall": m.ToolCall(id="c", name="ls", arguments="{}"),
    "ToolResult": m.ToolResult(call_id="c"),
}
STOP = m.Stop(reason=m.StopReason.END)
FAILURE = m.Failure(kind=next(iter(m.FailureKind)), message="f")
CITATION = m.Citation(kind=m.CitationKind.WEB, native={})
OTHERS: dict[str, Struct] = {
    "BlockStart": m.BlockStart(0, BLOCKS["Text"]),
    "BlockStop": m.BlockStop(0),
    "CacheMark": m.CacheMark(300),
    "Caching": m.Caching(),
    "Citation": CITATION,
    "CitationDelta": m.CitationDelta(0, CITATION),
    "CustomTool": m.CustomTool(name="t"),
    "Delta": m.Delta(0, "t"),
    "Failed": m.Failed(FAILURE),
    "Failure": FAILURE,
    "Finish": m.Finish(stop=STOP),
    "FunctionTool": m.FunctionTool(name="t"),
    "HostedTool": m.HostedTool(kind=m.HostedKind.SHELL, native={}, type="t"),
    "LogprobsDelta": m.LogprobsDelta(0, []),
    "Opaque": m.Opaque(kind=m.OpaqueKind.SIGNATURE, value="v"),
    "OutputFormat": m.OutputFormat(kind=next(iter(m.FormatKind))),
    "Provenance": m.Provenance(protocol=m.Protocol.CHAT),
    "ReasoningDelta": m.ReasoningDelta(0, "t"),
    "Request": m.Request(protocol=m.Protocol.CHAT, model="m"),
    "Response": m.Response(protocol=m.Protocol.CHAT, id="r", model="m", blocks=(), stop=STOP),
    "ResponseStart": m.ResponseStart(protocol=m.Protocol.CHAT, id="r", model="m"),
    "Sampling": m.Sampling(),
    "SearchHit": m.SearchHit(url="https://a.example"),
    "Source": SOURCE,
    "Stop": STOP,
    "Thinking": m.Thinking(),
    "ToolChoice": m.ToolChoice(mode=m.ChoiceMode.AUTO),
    "ToolRef": m.ToolRef(name="t"),
    "Turn": m.Turn(role=m.Role.USER, blocks=()),
    "Usage": m.Usage(),
    "UsedBesides": m.UsedBesides(usage=m.Usage()),
    "UserLocation": m.UserLocation(),
}
VALUES: dict[str, Struct] = {**BLOCKS, **OTHERS}
NEVER_NAMED = {m.Block, m.Event, m.Tool, m.Ledger, m.Loss, m.LossRule, m.OpenBlock, m.Traits}
"""bases, and what is no part of a request or response"""
HAVE_NO_NAME = {"Failure", "Opaque"}
"""what a comparison shows without its name"""


class Looks(Policy):
    """Lets everything pass and looks at whole blocks."""

    text, reasoning = "whole", "whole"
    calls = others = True


class Finds(Policy):
    """Looks for a phrase in text that flows."""

    text, find = "flow", phrase_scan(["words"])


def recorded_kinds(policy: Policy, block: m.Block) -> set[str]:
    """Return what the records of a policy call a block."""
    run = PolicyRun([policy])
    run.begin(m.Request(protocol=m.Protocol.MESSAGES, model="m"))
    judge_response(run, m.Response(protocol=m.Protocol.MESSAGES, id="r", model="m", blocks=(block,), stop=STOP))
    return {record.kind for record in run.records if record.block is not None}


@pytest.mark.parametrize("name", BLOCKS)
def test_records_of_policies_name_blocks(name: str) -> None:
    assert recorded_kinds(Looks(), BLOCKS[name]) == {name}


def test_records_of_policies_name_blocks_that_flow() -> None:
    assert recorded_kinds(Finds(), BLOCKS["Text"]) == {"Text"}


@pytest.mark.parametrize("name", VALUES)
def test_comparisons_name_values(name: str) -> None:
    shown = module_with("Reading", "request_tree").Reading().value(VALUES[name])
    assert shown.get("is") == (None if name in HAVE_NO_NAME else name)


def test_every_neutral_struct_has_a_name_of_its_own() -> None:
    names = module_with("name_of", "_NAMES")
    for name, value in VALUES.items():
        assert names.name_of(value) == names._NAMES[type(value)] == name
    kinds = {kind for kind in vars(m).values() if isinstance(kind, type) and issubclass(kind, Struct)}
    assert kinds - NEVER_NAMED - {type(value) for value in VALUES.values()} == set()


def test_a_struct_of_another_package_has_the_name_that_it_has_there() -> None:
    class Hologram(m.Block, frozen=True, kw_only=True):
        depth: int = 0

    assert module_with("name_of", "_NAMES").name_of(Hologram()) == "Hologram"


@pytest.mark.parametrize(
    ("name", "code"), [("Document", "native.dropped"), ("SearchResult", "native.dropped"), ("Native", "native.dropped")]
)
def test_losses_name_blocks(name: str, code: str) -> None:
    reply = trilogue.Reply(source=m.Protocol.MESSAGES)
    response = m.Response(protocol=m.Protocol.MESSAGES, id="r", model="m", blocks=(BLOCKS[name],), stop=STOP)
    trilogue.codec("chat").encode_response(response, reply)
    assert (code, "t" if name == "Native" else name) in {(loss.code, loss.detail) for loss in reply.ledger.losses}


PICTURE = {"type": "image", "source": {"type": "url", "url": "https://a.example/x.png"}}
RESULT = {
    "model": "m",
    "max_tokens": 9,
    "messages": [
        {"role": "user", "content": "look"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "see", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": [PICTURE]}]},
    ],
}


@pytest.mark.parametrize(
    ("images", "note"), [(False, "[image left out: "), (True, "[image: see the next user message]")]
)
def test_notes_name_blocks(images: bool, note: str) -> None:
    target = trilogue.Target(protocol=m.Protocol.CHAT, model="m", profile=trilogue.Profile(images=images))
    made = trilogue.translate_request(RESULT, source=m.Protocol.MESSAGES, target=target)
    assert note in trilogue.dump(made.body).decode()


# Policies without a name in their settings.

POLICIES = {
    "approve": "Approve",
    "block_phrases": "BlockPhrases",
    "force_model": "ForceModel",
    "inject_system": "InjectSystem",
    "judge": "Judge",
    "limits": "Limits",
    "redact": "Redact",
    "rewrite": "RewriteText",
    "tools": "Tools",
}
REQUIRED: dict[str, dict[str, Any]] = {
    "block_phrases": {"phrases": ["x"]},
    "force_model": {"model": "m"},
    "inject_system": {"text": "x"},
    "judge": {"model": "m"},
    "rewrite": {"rules": [{"find": "x", "replace": "y"}]},
}


def test_shipped_policies_have_default_names() -> None:
    shipped = module_with("SHIPPED", "find_policy").SHIPPED
    settings = {use: msgspec.convert(REQUIRED.get(use, {}), kind.Settings) for use, kind in shipped.items()}
    assert {use: kind(settings[use]).name for use, kind in shipped.items()} == POLICIES
    assert all(vars(kind)["_default_name"] == POLICIES[use] for use, kind in shipped.items())
    assert {use: load_policy({"use": use} | REQUIRED.get(use, {})).name for use in shipped} == {
        use: use for use in shipped
    }


def test_own_policies_have_the_names_of_their_classes() -> None:
    shipped: type[Policy] = module_with("SHIPPED", "find_policy").SHIPPED["tools"]
    assert Looks().name == "Looks"
    assert type("Ours", (shipped,), {})().name == "Ours"
    assert Looks(PolicySettings(name="chosen")).name == "chosen"


# Exceptions: their names are in log lines (`error`), in differences of replays, in records of policies, and in what
# `python -m tests.outputs` hashes.

EXCEPTIONS = words(
    """
    AdminError BadPattern BadReference BadRequest BrokenHistory CaptureError ChainBroken CipherUnavailable ClientError
    ClientGone ClusterUnavailable CommitUnsure ConfigError ContentUnreadable ConversationLocked InternalError JobEnded
    KeyExists LimitReached LimitsFull LockedConversation MissingSecret Misuse NoClientKey NoProvider NoRoute NoSealKey
    NoSuchKey NobodyAnswers NotAllowed NotFound NotJson NotJudged NotStorable PatternProblem PolicyError ProviderError
    SealError SettingsProblem SeveralProtocols SpendingUnknown StateError StoppedByPolicy StoreAway StoreBusy
    StoreDamaged StoreError StoreUnavailable StrictLoss TooLarge TrilogueError UnknownConversation UnknownId
    UnknownItem UnknownKey UnknownObject UnknownPolicy Unsupported UpstreamConnect UpstreamCredential UpstreamError
    UpstreamFailure UpstreamProtocolError UpstreamTimeout UpstreamTruncated VaultError
    """
)


def classes(modules: list[Module]) -> set[str]:
    return {node.name for module in modules for node in ast.walk(module.tree) if isinstance(node, ast.ClassDef)}


def test_exceptions_have_the_names_that_log_lines_have() -> None:
    gone = sorted(EXCEPTIONS - classes(MODULES))
    assert not gone, f"exceptions that logs and records name are called otherwise or gone: {gone}"
    assert EXCEPTIONS - classes([made("class StoreBusy(Exception): ...")]) == EXCEPTIONS - {"StoreBusy"}


# Loggers: programs that have mounted the gateway configure them by name.

LOGGERS = words(
    """
    trilogue.access trilogue.admin trilogue.capture trilogue.cluster trilogue.gateway trilogue.http trilogue.keys
    trilogue.limits trilogue.log trilogue.metrics trilogue.policies trilogue.server trilogue.state trilogue.tracing
    trilogue.usage trilogue.webhook trilogue.websocket
    """
)


def loggers(modules: list[Module]) -> set[str]:
    """Return what loggers are made with, as it is written."""
    return {
        ast.unparse(node.args[0]).strip("'")
        for module in modules
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Call)
        and node.args
        and ast.unparse(node.func).rpartition(".")[2] in ("get_logger", "getLogger", "Logger")
    }


OTHER_LOGGERS = {"record.name", "opentelemetry"}
"""what libraries log"""


def test_loggers_have_the_names_that_programs_configure() -> None:
    assert loggers(MODULES) - OTHER_LOGGERS == LOGGERS
    assert loggers([made("log = structlog.get_logger(__name__)\nother = logging.getLogger('a')")]) == {"__name__", "a"}


# Words in data that would be renamed together with a class or a field.

WORDS = ('"cluster":"away"', '"cluster":"connected"', "store_away", "trilogue.policies")
"""parts of `GET /health`, a setting and a code, and the entry points of packages that bring policies"""


def words_without(modules: list[Module]) -> list[str]:
    """Return the words that no text or field in a source has any more."""
    there = [text for module in modules for text in texts(module.tree)]
    return [word for word in WORDS if not any(word in text for text in there)]


def texts(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes):
            yield node.value if isinstance(node.value, str) else node.value.decode("latin-1")


def test_words_of_data_are_there() -> None:
    assert words_without(MODULES) == []
    assert words_without([made('x = b\'"cluster":"away"\'')]) == [*WORDS[1:]]


# The configuration: the names of its classes are only links inside the schema.


def test_schema_means_the_same_whatever_its_classes_are_called() -> None:
    """A renamed class changes the file, which `tests/config/test_schema.py` compares, but not what it means."""
    now = module_with("json_schema", "field_docs").json_schema()
    assert resolved(now) == resolved(json.loads(SCHEMA.read_text("utf-8")))


def test_only_names_of_classes_make_no_difference() -> None:
    text = SCHEMA.read_text("utf-8")
    renamed = text
    for name in json.loads(text)["$defs"]:
        renamed = renamed.replace(f'"{name}"', f'"{name}Renamed"').replace(f'/{name}"', f'/{name}Renamed"')
    assert renamed.count("Renamed") > 100
    assert resolved(json.loads(renamed)) == resolved(json.loads(text))
    changed = text.replace('"store_away"', '"store_unreachable"')
    assert resolved(json.loads(changed)) != resolved(json.loads(text))


# Everything else that reads the name of a class or function.

ALLOWED = {
    "__name__": "the module's own name",
    "module.__name__": "the name of a module",
    "kind.__name__": "an exception of a policy, a driver or the Redis client, as for type(error)",
    "method.__qualname__": "says which observer failed, beside a traceback",
    "one.__name__": "a class in a user's file",
    "type(error).__name__": "an exception: EXCEPTIONS, and those of Python and libraries",
    "type(found).__name__": "an exception: what became of a question of a policy",
    "type(self).__name__": "a policy of a user",
    "type(value).__name__": "a block of another package",
    "type(verdict).__name__": "whatever a policy of a user has returned",
}


def name_uses(modules: list[Module]) -> set[str]:
    """Return the expressions that read a name, except for messages about our own mistakes and names in the schema."""
    found: set[str] = set()
    for module in modules:
        names = {*(getattr(node, "name", "") for node in module.tree.body)}
        if "json_schema" in names:
            continue
        mistakes = {
            inner
            for node in ast.walk(module.tree)
            if isinstance(node, ast.Raise) and ast.unparse(node).startswith("raise InternalError(")
            for inner in ast.walk(node)
        }
        for node in ast.walk(module.tree):
            is_use = isinstance(node, ast.Attribute) and node.attr in ("__name__", "__qualname__")
            if (is_use or (isinstance(node, ast.Name) and node.id == "__name__")) and node not in mistakes:
                found.add(ast.unparse(node))
    return found


def test_names_are_read_for_known_reasons() -> None:
    """A name that is stored or shown is written out: as a tag, or in a table such as that of `name_of`."""
    assert name_uses(MODULES) == set(ALLOWED)


def test_other_uses_of_names_are_found() -> None:
    stored = "kind = type(change).__name__\nraise InternalError(f'{type(event).__name__} here')\nf(g.__qualname__)"
    assert name_uses([made(stored)]) == {"type(change).__name__", "g.__qualname__"}
    assert name_uses([made("def json_schema(): return Protocol.__name__")]) == set()


def made(text: str) -> Module:
    return Module(f"{ROOT_PACKAGE}.made", ast.parse(text), text=text)
