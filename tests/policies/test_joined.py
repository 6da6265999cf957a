"""What several blocks make together, as a reader sees it: examples of what `attacks.py` tries at random."""

from __future__ import annotations

from random import Random
from time import perf_counter
from typing import Any

import pytest

from tests.each import each
from tests.mapping.cases import C, M, R
from tests.policies.making import calls, request, tool
from tests.policies.pairs import PAIRS, Relayed, call, chunks, collected, said, stream_of
from trilogue.model import Audio, Native, Protocol, Reasoning, Refusal, Response, Stop, StopReason, Text, Usage
from trilogue.policies import PolicyError, PolicyRun, judge_response, load_policies, load_policy
from trilogue.policies.folding import Folded, fold, folded

PHRASES: dict[str, Any] = {"use": "block_phrases", "phrases": ["Project Nightfall"]}
MASKS = {**PHRASES, "replace": "[x]"}


def judged(*blocks: Any, **policy: Any) -> Response:
    """Return a response after one policy."""
    whole = Response(protocol=C, id="r", model="m", blocks=blocks, stop=Stop(reason=StopReason.END))
    return judge_response(PolicyRun(load_policies([policy])), whole)


def texts(response: Response) -> list[str]:
    """Return the texts and refusals of a response."""
    return [block.text for block in response.blocks if isinstance(block, Text | Refusal)]


@each(
    "parts",
    [
        ("Project Nightfall",),
        ("Project ", "Nightfall"),
        ("Project", "Nightfall"),
        ("Pro", "ject Night", "fall"),
        ("Project\u00a0Night\u00adfall",),
        ("project\n\n  NIGHTFALL",),
        ("Pro\u200bject N\u0301ightfall",),
        ("\uff30roject Night\ufb01all".replace("\ufb01", "f"),),
        ("Pro\x00ject \u2060Nightfall",),
    ],
)
def test_a_phrase_is_found_as_it_looks(parts: tuple[str, ...]) -> None:
    """Cut by blocks, with other spaces, with characters that cannot be seen."""
    blocks: list[Any] = []
    for part in parts:
        blocks += [Text(text=part), Reasoning(summary=("hm",))]
    stopped = texts(judged(*blocks, **PHRASES))
    assert "".join(stopped[:-1]).strip() == ""
    assert stopped[-1] == "The response was stopped by a policy."
    assert "".join(texts(judged(*blocks, **MASKS))) == "[x]"


def test_what_only_looks_like_it_passes() -> None:
    """Nothing is lost, and blocks keep their texts."""
    blocks = (Text(text="Project"), Text(text="or Night"), Reasoning(summary=("hm",)), Text(text="falls"))
    assert judged(*blocks, **PHRASES).blocks == blocks


def test_an_address_of_two_blocks() -> None:
    """It is redacted where it begins. An address of one block is judged alone, whatever follows it."""
    found = judged(Text(text="Mail jane@"), Text(text="example.org now"), use="redact")
    assert texts(found) == ["Mail [EMAIL redacted]", " now"]
    found = judged(Text(text="Mail jane@example.org"), Text(text="Then"), use="redact")
    assert texts(found) == ["Mail [EMAIL redacted]", "Then"]
    found = judged(Text(text="4111111111111111"), Text(text="2 items"), use="redact")
    assert texts(found) == ["[CARD redacted]", "2 items"]


def test_a_call_waits_for_the_text_before_it() -> None:
    """If the text turns out to be forbidden, the call never goes on."""
    blocks = [said("text", "Project", Random(1)), call("look", "{}", Random(1)), said("text", " Nightfall", Random(1))]
    for source, target in PAIRS:
        data = stream_of(source, blocks, Random(2), "calls")
        relayed = Relayed((source, target), chunks(data, Random(3)), load_policies([PHRASES]))
        assert b"look" not in relayed.out, (source, target)
        assert relayed.run.stopped is not None
        assert relayed.problems() == []


def test_words_of_a_policy_are_a_paragraph_in_chat() -> None:
    """All text of a response is one string there."""
    blocks = [said("text", "I look.", Random(1)), call("look", "{}", Random(1))]
    policies = [{"use": "tools", "deny": ["look"]}]
    words = "The call of look was blocked by a policy: the tool is denied."
    for source in Protocol:
        data = stream_of(source, blocks, Random(2), "calls")
        for target, expected in ((C, f"I look.\n\n{words}"), (M, f"I look.{words}"), (R, f"I look.{words}")):
            relayed = Relayed((source, target), chunks(data, Random(3)), load_policies(policies))
            assert "".join(texts(collected(target, relayed.out))) == expected


def test_audio_is_judged_by_its_words() -> None:
    """A clip whose transcript is changed does not go on: it would still say the words."""
    clip = Audio(id="a", transcript="It is Project Nightfall.")
    assert judged(clip, **MASKS).blocks == (Text(text="It is [x]."),)
    assert judged(Audio(id="a", transcript="Hello"), **MASKS).blocks == (Audio(id="a", transcript="Hello"),)


@each(
    ("settings", "block", "passes"),
    [
        ({"allow": ["look"]}, Native(type="new_call", data={"type": "new_call"}), False),
        ({"allow": ["look"]}, Native(type="compaction", data={}, harmless=True), True),
        ({"deny": ["bash"]}, Native(type="new_call", data={"name": "bash"}), False),
        ({"deny": ["new_call"]}, Native(type="new_call", data={"name": "bash"}), False),
        ({"deny": ["bash"]}, Native(type="mcp_approval_request", data={"name": "bash"}, awaits_client=True), False),
        ({"rules": [{"deny": ["DROP TABLE"]}]}, tool("sql", arguments='{"q": "DR\u00adOP\u00a0TABLE x"}'), False),
        ({"rules": [{"commands": ["rm -rf"]}]}, tool("sh", arguments='{"q": "r\u200bm -rf x"}'), False),
        ({"deny": ["x"]}, Native(type="mcp_approval_request", data={"name": "bash"}, awaits_client=True), True),
        (
            {"rules": [{"commands": ["rm -rf"]}]},
            Native(
                type="mcp_approval_request", data={"name": "sh", "arguments": '{"c": "rm -rf /"}'}, awaits_client=True
            ),
            False,
        ),
    ],
)
def test_calls_that_only_one_protocol_has(settings: dict[str, Any], block: Any, passes: bool) -> None:
    """Approval requests are judged by the tool that they are about, and unknown blocks as calls."""
    assert (judged(block, use="tools", **settings).blocks == (block,)) is passes


@each(
    ("use", "settings"),
    [
        ("tools", {"rules": [{"deny": ["(a|a)*b"]}]}),
        ("tools", {"rules": [{"allow": ["(a|a)*b"]}]}),
        ("tools", {"rules": [{"schema": {"properties": {"x": {"pattern": "(a|a)*b"}}}}]}),
        ("tools", {"rules": [{"inside": ["/srv"], "hosts": ["example.com"], "commands": ["rm -rf"]}]}),
        ("rewrite", {"rules": [{"pattern": "(a|a)*b"}], "where": ["text", "arguments", "request"]}),
        ("redact", {"patterns": {"OWN": "(?:a|a)*b"}}),
    ],
)
def test_patterns_take_linear_time(use: str, settings: dict[str, Any]) -> None:
    """Also those for which Python's `re` would not end."""
    begun = perf_counter()
    for long in ("a" * 50_000, "https://x" * 5_000, "/" + " ." * 20_000, "a:/" * 20_000, "../" * 20_000):
        run = PolicyRun([load_policy({"use": use, **settings})])
        run.begin(request(long))
        judge_response(run, calls(tool("look", arguments=f"""{{"x": "{long}"}}""")))
    assert perf_counter() - begun < 5


@each("pattern", [r"a(?=b)", r"(?<!a)b", r"(a)\1", "a++", "(?>a)b", "a{,3}b", "a{2000}", "("])
def test_patterns_that_cannot_be_used_are_refused_when_they_are_read(pattern: str) -> None:
    for settings in (
        {"use": "tools", "rules": [{"deny": [pattern]}]},
        {"use": "rewrite", "rules": [{"pattern": pattern}]},
    ):
        with pytest.raises(PolicyError, match="not a regular expression"):
            load_policy(settings)


def test_folding() -> None:
    """Every character is folded alone, so cuts do not matter."""
    text = "\u00c9te\u0301 \uff21\u00a0\ufb01\u2011\u201cx\u201d\u3000\u200b\ufeff\u1100"
    assert fold(text) == 'Ete A fi-"x" \u1100'
    assert "".join(map(fold, text)) == fold(text)


def test_unknown_fields_with_a_phrase_do_not_go_on() -> None:
    """Those of the response, of its blocks, of its usage and of its end; all others stay."""
    found = {"note": "Project Nightfall", "other": "x"}
    blocks = (Reasoning(raw=("hm",), extras=found), Text(text="ok", extras=found))
    whole = Response(
        protocol=Protocol.RESPONSES,
        id="r",
        model="m",
        blocks=blocks,
        stop=Stop(reason=StopReason.END, extras=found),
        usage=Usage(output=1, extras=found),
        extras=found,
    )
    phrases = {"use": "block_phrases", "phrases": ["Project Nightfall"], "where": ["text", "reasoning"]}
    judged = judge_response(PolicyRun(load_policies([phrases])), whole)
    assert judged.usage is not None
    kept = [judged.extras, judged.usage.extras, judged.stop.extras, *[block.extras for block in judged.blocks]]
    assert kept == [{"other": "x"}] * 5


def test_many_blocks_that_could_be_a_phrase_for_ever_are_joined_in_linear_time(monkeypatch: pytest.MonkeyPatch) -> None:
    folds = [0]

    def counted(text: str) -> Folded:
        folds[0] += len(text)
        return folded(text)

    monkeypatch.setattr("trilogue.policies.scan.folded", counted)
    number = 3000
    between = [block for _ in range(number) for block in (Reasoning(raw=("x",)), Text(text=" "))]
    response = judged(Text(text="Project"), *between, Text(text="Nightfall"), **MASKS)
    assert "Nightfall" not in "".join(texts(response))
    assert folds[0] < number * 2_500
