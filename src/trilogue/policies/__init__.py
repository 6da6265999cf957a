"""Policies judge, rewrite or stop requests and blocks of responses, in any protocol, streamed or not.

`Policy` is the interface, `PolicyRun` applies policies to one request and its response. Nothing here does I/O: a run
says what it waits for, and the caller (the gateway, or a program that uses the library) gets the answer.

To read the engine, begin with `engine` (the run), then `machine` (one response), `blocks` (their way through the
policies) and `outlet` (what goes on). `scan` looks for patterns in text that arrives in pieces, with `folding` (texts
as a reader sees them) and `patterns` (searches in linear time). `texts` is all text of a block or request, and
`shipped` the policies that come with Trilogue.
"""

from trilogue.policies.calls import Call, call_of
from trilogue.policies.engine import PolicyRun, judge_events, judge_request, judge_response
from trilogue.policies.loading import PolicyError, load_policies, load_policy
from trilogue.policies.policy import Context, Outcome, Policy, PolicySettings
from trilogue.policies.scan import Scan, phrase_scan, scan_of
from trilogue.policies.texts import text_of
from trilogue.policies.verdicts import (
    PASS,
    Answer,
    Ask,
    Drop,
    Pass,
    Pending,
    PolicyVerdict,
    Record,
    Replace,
    Rewrite,
    StopWith,
)

__all__ = [
    "PASS",
    "Answer",
    "Ask",
    "Call",
    "Context",
    "Drop",
    "Outcome",
    "Pass",
    "Pending",
    "Policy",
    "PolicyError",
    "PolicyRun",
    "PolicySettings",
    "PolicyVerdict",
    "Record",
    "Replace",
    "Rewrite",
    "Scan",
    "StopWith",
    "call_of",
    "judge_events",
    "judge_request",
    "judge_response",
    "load_policies",
    "load_policy",
    "phrase_scan",
    "scan_of",
    "text_of",
]
