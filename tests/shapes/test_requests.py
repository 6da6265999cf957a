"""Every listed feature of requests is in a request that was written by hand, and those are translated."""

import pytest

import trilogue
from tests.corpus.cases import NEWEST, OLDER, judge_request, others
from tests.each import each
from tests.mapping.cases import Body, request
from tests.mapping.test_every_row import ASKS
from tests.shapes import made
from tests.shapes.lists import entries
from tests.shapes.requests import features
from trilogue import Protocol, Target
from trilogue.lint import lint_request

CASES = [(protocol, name, fields) for protocol, cases in made.REQUESTS.items() for name, fields in cases.items()]
PAIRS = [
    pytest.param(name, request(protocol, **fields), protocol, target, id=f"{name}-{protocol.short}-{target.short}")
    for protocol, name, fields in CASES
    for target in others(protocol)
]
REFUSED = {
    ("prefix", Protocol.MESSAGES),
    ("prefix", Protocol.RESPONSES),
    ("sound as text", Protocol.MESSAGES),
    ("sound as text", Protocol.RESPONSES),
    ("video", Protocol.MESSAGES),
    ("video", Protocol.RESPONSES),
    ("turns inside a turn", Protocol.MESSAGES),
    ("temperature as text", Protocol.MESSAGES),
    ("temperature as text", Protocol.RESPONSES),
    ("assistant last", Protocol.MESSAGES),
    ("file by id", Protocol.MESSAGES),
    ("remote tool", Protocol.CHAT),
    ("file by id in a result", Protocol.CHAT),
    ("file by id in a result", Protocol.RESPONSES),
    ("screenshot", Protocol.CHAT),
    ("screenshot", Protocol.MESSAGES),
    ("conversation", Protocol.CHAT),
    ("conversation", Protocol.MESSAGES),
    ("template", Protocol.CHAT),
    ("template", Protocol.MESSAGES),
    ("tool in the form of Chat", Protocol.CHAT),
    ("tool in the form of Chat", Protocol.MESSAGES),
    ("search that must be used", Protocol.CHAT),
    ("picture by file id in a result", Protocol.CHAT),
    ("picture by file id in a result", Protocol.MESSAGES),
    ("compacted", Protocol.CHAT),
    ("compacted", Protocol.MESSAGES),
}
"""what has no equivalent, or is not valid to begin with, by the protocol of the model"""


def test_every_feature_has_a_case() -> None:
    """A feature is covered by a row of the mapping or by a request that was written for it."""
    requests = [(case.source, case.body) for case in ASKS]
    requests += [(protocol, request(protocol, **fields)) for protocol, _, fields in CASES]
    written = {(protocol, feature) for protocol, body in requests for feature in features(body)}
    missing = [entry for entry in entries("requests") if entry not in written]
    assert [f"{protocol.short}: {feature}" for protocol, feature in missing] == []


@pytest.mark.parametrize("models", [NEWEST, OLDER], ids=["newest", "older"])
@each(("name", "body", "source", "target"), PAIRS)
def test_request(name: str, body: Body, source: Protocol, target: Protocol, models: dict[Protocol, str]) -> None:
    """Accepted by the SDK's types and the linter, and nothing lost that was not declared; or refused with a reason."""
    verdict = judge_request(made.as_recorded(source, request=body), target, models[target])
    assert verdict.problems == []
    if models is NEWEST:
        assert bool(verdict.refused) == ((name, target) in REFUSED), verdict.refused
    if not verdict.refused:
        sent = trilogue.translate_request(body, source=source, target=Target.of(target, models[target])).body
        assert [str(found) for found in lint_request(target, sent) if found.severity == "error"] == []
