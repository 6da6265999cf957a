"""Policies on endpoints that pass through: what can be judged is, and everything else is refused where policies apply.

Only requests can be judged whose whole content is text, and whose response has none of a model: embeddings, rerank and
moderations. Policies see the texts as one message of the user. A configuration can allow other endpoints by name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from trilogue.base.json_text import dump, parse_request
from trilogue.errors import ClientError
from trilogue.gateway.endpoints.judging import chosen_policies, judge_count
from trilogue.gateway.request.call import ReadBody
from trilogue.gateway.request.other import OtherCall, makes_something, named_models
from trilogue.gateway.request.request import RequestContext
from trilogue.model import Json, Ledger, Request, Role, Text, Turn
from trilogue.policies.texts import has_repeated_names
from trilogue.protocols.codec import Target
from trilogue.protocols.registry import CODECS
from trilogue.routing.router import ProviderModel
from trilogue.vendors.profile import UNCHANGED

_WORD = re.compile(r"[\w./:+-]{0,100}")
"""what settings have: names of formats, ids"""

_decode_fields = msgspec.json.Decoder(dict[str, Raw]).decode


class NotJudged(ClientError):
    """Policies apply to a request that they cannot judge."""

    status = 403

    def __init__(self, path: str, reason: str = "") -> None:
        super().__init__(
            f"policies apply to this request, and they cannot judge {path[:200]}{reason}; the operator can allow it by "
            "name (server.unjudged_endpoints)",
            code="not_judged",
        )


async def judge_other(context: RequestContext, call: OtherCall, targets: Sequence[ProviderModel]) -> OtherCall:
    """Apply the policies to a request, and return it as it may go out. Raises NotJudged and StoppedByPolicy."""
    endpoint, gateway = call.route.endpoint, context.entry.gateway
    if endpoint.path in gateway.settings.unjudged_endpoints:
        return call
    names = list(dict.fromkeys(named_models(context, call)))
    applying = [one for name in names or [""] for one in chosen_policies(context, name, targets).policies]
    runs = endpoint.paid != "nothing" and makes_something(context)
    if not names and runs and gateway.policies is not None:
        # Any model may be behind it, also one that has policies of its own.
        applying += gateway.policies.of_some_models
    if not applying:
        return call
    if not endpoint.texts or not call.body or len(names) > 1:
        raise NotJudged(endpoint.path)
    return await _judged_texts(context, call, targets)


async def _judged_texts(context: RequestContext, call: OtherCall, targets: Sequence[ProviderModel]) -> OtherCall:
    """Return a request with the texts that policies leave of it."""
    endpoint, fields = call.route.endpoint, parse_request(call.body)
    known = (*endpoint.texts, *endpoint.models, *call.route.model_fields)
    hidden = next((name for name, value in fields.items() if name not in known and _has_text({name: value})), None)
    if hidden is not None:
        raise NotJudged(endpoint.path, f" with text in {hidden[:80]}")
    texts = [text for name in endpoint.texts for text in _texts(fields.get(name), endpoint.path)]
    client, model = context.entry.client, call.model or "text"
    turn = Turn(role=Role.USER, blocks=tuple([Text(text=text) for text in texts]))
    request = Request(protocol=client, model=model, turns=(turn,))
    body = dump(CODECS[client].encode_request(request, _target(context, model), Ledger()))
    judged = (await judge_count(context, ReadBody(body, model, False), targets)).call
    if judged.asked is None:
        # Of two fields with one name, only the one that was judged goes out.
        return replace(call, body=dump(fields)) if has_repeated_names(call.body, fields) else call
    changed = _changed(CODECS[client].decode_request(parse_request(judged.body)), len(texts))
    if changed is None or judged.model != model:
        raise NotJudged(endpoint.path, ": they would change more than its texts")
    left = iter(changed)
    own = _decode_fields(call.body)
    for name in endpoint.texts:
        if name in fields:
            own[name] = Raw(dump(_with_texts(fields[name], left)))
    return replace(call, body=dump(own))


def _has_text(value: Json) -> bool:
    """Return whether the value of a setting has more than numbers and words."""
    if isinstance(value, str):
        return _WORD.fullmatch(value) is None
    if isinstance(value, dict):
        return any(_has_text(one) for one in (*value, *value.values()))
    return isinstance(value, list) and any(_has_text(one) for one in value)


def _target(context: RequestContext, model: str) -> Target:
    return Target(protocol=context.entry.client, model=model, profile=UNCHANGED)


def _texts(value: Json, path: str) -> list[str]:
    """Return the texts in a field: one, or a list of texts or of objects with a text. Raises NotJudged for others."""
    if value is None:
        return []
    entries = value if isinstance(value, list) else [value]
    found = [entry.get("text") if isinstance(entry, dict) else entry for entry in entries]
    if not all(isinstance(one, str) for one in found) or any(
        isinstance(entry, dict) and entry.keys() - {"type", "text"} for entry in entries
    ):
        raise NotJudged(path, " unless all of its input is text")
    return [one for one in found if isinstance(one, str)]


def _changed(request: Request, number: int) -> list[str] | None:
    """Return the texts of a message that policies have changed; None if they have changed something else as well."""
    blocks = [block for turn in request.turns for block in turn.blocks]
    texts = [block.text for block in blocks if isinstance(block, Text)]
    whole = len(request.turns) == 1 and request.turns[0].role is Role.USER and not request.tools
    return texts if whole and len(texts) == len(blocks) == number else None


def _with_texts(value: Json, texts: Iterator[str]) -> Json:
    """Return the value of a field with other texts."""
    if isinstance(value, list):
        return [{**entry, "text": next(texts)} if isinstance(entry, dict) else next(texts) for entry in value]
    return {**value, "text": next(texts)} if isinstance(value, dict) else next(texts)
