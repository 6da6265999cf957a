"""`trilogue explain`: what happened to one request, from the memory of a running gateway."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import click

from trilogue.app.cli.admin_client import admin_client, admin_options
from trilogue.app.cli.tables import counted
from trilogue.app.cli.verdicts import verdict_text
from trilogue.base.text import printable
from trilogue.gateway.log.access_log import count, duration

MOST_PATHS = 5
STOPPED = {
    "budget": "no other account was tried: the retry budget is spent (pool.retry_budget)",
    "attempts": "no other account was tried: max_attempts was reached",
    "exhausted": "no account was left",
}
"""why there was no further attempt, by outcome"""
REASONS = {"client_gone": "the client disconnected"}
WIDTH = 13
"""of the labels"""

Row = dict[str, Any]


@click.command()
@click.argument("request_id", default="last", metavar="[ID|last]")
@admin_options
@click.option("--json", "as_json", is_flag=True, help="Print the JSON of the admin interface.")
def explain(request_id: str, path: str | None, url: str | None, as_json: bool) -> None:
    """Show what happened to a request: route, accounts, attempts, translation, losses, times, tokens and cost.

    ID is in the header x-request-id of every response, in every error of the log, and in the admin interface.

    \b
    trilogue explain
    trilogue explain req_5f0c1a2b3c4d5e6f00000001
    """
    if not request_id or "/" in request_id:
        raise click.UsageError("ID is the x-request-id of a response, or last")
    found: Row = admin_client(path, url).get(f"/requests/{quote(request_id, safe='')}")
    click.echo(json.dumps(found, indent=2, ensure_ascii=False) if as_json else "\n".join(explanation(found)))


def explanation(request: Row) -> Iterator[str]:
    """Yield the lines for a terminal. Names that clients choose cannot contain terminal codes."""
    yield printable(_headline(request))
    for label, lines in _sections(request):
        for number, line in enumerate(lines):
            yield printable(f"{label if not number else '':<{WIDTH}}{line}").rstrip()


def _sections(request: Row) -> Iterator[tuple[str, list[str]]]:
    yield "asked for", [_asked(request)]
    if request["error"]:
        reason = request["reason"] or REASONS.get(request["error"])
        yield "error", [f"{request['error']}: {reason}" if reason else request["error"]]
    if request["targets"]:
        rule = f" ({request['route']})" if request["route"] else ""
        yield "route", [f"{', then '.join(request['targets'])}{rule}"]
    if request.get("ruled_by"):
        yield "rules of", [", ".join(f"route {match}" for match in request["ruled_by"])]
    yield "accounts", list(_accounts(request["considered"], request["began_at"] + request["total_ms"] / 1000))
    for number, attempt in enumerate(request["attempts"], 1):
        yield f"attempt {number}", list(_attempt(attempt))
    if request["outcome"] in STOPPED:
        yield "then", [STOPPED[request["outcome"]]]
    if request["upstream"]:
        yield "translation", list(_translation(request))
        yield "lost", list(_losses(request["losses"]))
    if request.get("policies"):
        yield "policies", [f"{verdict_text(one)}, {_ms(one['duration_ms'])}" for one in request["policies"]]
    if request.get("asked"):
        yield "asked", [_question(one) for one in request["asked"]]
    yield "times", [_times(request)]
    if request["input_tokens"] is not None:
        yield "tokens", [_tokens(request)]
        yield "cache", list(_cache(request))
        yield "cost", [_cost(request)]
    elif request["first_token_ms"] is not None and not request["running"]:
        yield "tokens", ["unknown: the response ended before the upstream reported them"]
        yield "cost", ["unknown"]


def _headline(request: Row) -> str:
    began = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(request["began_at"]))
    state = "is running" if request["running"] else f"status {request['status']}"
    empty = ", empty response" if request["empty"] else ""
    return f"{request['id']}  {began}  {state}{empty}"


def _asked(request: Row) -> str:
    how = ", streamed" if request["stream"] else ""
    key = f", key {request['key']}" if request["key"] else ""
    parent = f", by a policy of {request['parent']}" if request.get("parent") else ""
    return f"{request['model'] or request['path']} in {request['client']}{how}{key}{parent}"


def _accounts(considered: list[Row], now: float) -> Iterator[str]:
    """Yield a line for each choice that was made among the accounts of a provider."""
    for choice in considered:
        free = choice["candidates"] - choice["away"]
        reasons = [f"{times} {name}" for name, times in choice["reasons"].items()]
        skipped = [_skipped(one, now) for one in choice["skipped"]]
        why = "; ".join([*skipped, *reasons])
        yield f"{choice['provider']}: {free} of {choice['candidates']} available{f' ({why})' if why else ''}"


def _skipped(one: Row, now: float) -> str:
    until = f" for {one['until'] - now:.0f} s more" if one["until"] is not None and one["until"] > now else ""
    model = f" for {one['model']}" if one["model"] else ""
    return f"{one['account']}: {one['why']}{model}{until}"


def _attempt(attempt: Row) -> Iterator[str]:
    where = f"{attempt['provider']}/{attempt['account']}, {attempt['model']}"
    protocol = f" in {attempt['protocol']}" if attempt["protocol"] else ""
    proxy = "" if attempt["proxy"] is None else f", proxy {attempt['proxy'] + 1}"
    yield f"{where}{protocol}{proxy}: {attempt['chosen']}, {_spent(attempt)}"
    if attempt["why"]:
        status = f"{attempt['status']} " if attempt["status"] else ""
        yield f"{status}{attempt['why']}: {attempt['meaning']}"
    if attempt["consequence"]:
        yield f"→ {attempt['consequence']}"


def _spent(attempt: Row) -> str:
    """Return how long an attempt took."""
    if attempt["ended_ms"] is None:
        return f"running since {_ms(attempt['began_ms'])}"
    return _ms(attempt["ended_ms"] - attempt["began_ms"])


def _translation(request: Row) -> Iterator[str]:
    if request["passed_through"]:
        yield f"none: {request['upstream']} is passed through"
    else:
        vendor = f", rules of {request['vendor']}" if request["vendor"] not in (None, "none") else ""
        yield f"{request['client']} > {request['upstream']}{vendor}"
    if request["rules"]:
        name = f"{request['provider']}/{request['upstream_model']}"
        yield f"fitted to {counted(len(request['rules']), 'rule')} about the model (`trilogue models {name}`)"
    if request["learned"]:
        yield f"left out because the upstream has refused it: {', '.join(request['learned'])}"


def _losses(losses: list[Row]) -> Iterator[str]:
    """Yield what was lost, each code once with its paths, and what to set instead."""
    if not losses:
        yield "nothing"
    by_code: dict[str, list[Row]] = {}
    for loss in losses:
        by_code.setdefault(loss["code"], []).append(loss)
    for code, found in by_code.items():
        paths = [loss["path"] or "the whole document" for loss in found[:MOST_PATHS]]
        more = f" and {len(found) - MOST_PATHS} more" if len(found) > MOST_PATHS else ""
        yield f"{code} ({found[0]['severity']}) at {', '.join(paths)}{more}: {found[0]['instead']}"
        yield f"  advice: {found[0]['advice']}"


def _question(one: Row) -> str:
    """Return a request that a policy has made: its model, its outcome and what it has cost."""
    outcome = "is running" if one["running"] else one["error"] or f"status {one['status']}"
    cost = "cost unknown" if one["cost"] is None else f"{one['cost']:.6f} {one['currency']}"
    return f"{one['model']} ({one['id']}): {outcome}, {_ms(one['total_ms'])}, {cost}"


def _times(request: Row) -> str:
    parts = [
        f"queue {_ms(request['queue_ms'])}" if request["queue_ms"] else "",
        f"connect {_ms(request['connect_ms'])}" if request["connect_ms"] is not None else "",
        f"first byte {_ms(request['first_byte_ms'])}" if request["first_byte_ms"] is not None else "",
        f"first token {_ms(request['first_token_ms'])}" if request["first_token_ms"] is not None else "",
        f"total {_ms(request['total_ms'])}{' so far' if request['running'] else ''}",
    ]
    return ", ".join(part for part in parts if part)


def _ms(milliseconds: float) -> str:
    return f"{milliseconds:.1f}ms" if milliseconds < 10 else duration(milliseconds / 1000)


def _tokens(request: Row) -> str:
    kinds = [
        f"{count(request[field])} {name}"
        for field, name in (("cache_read_tokens", "from the cache"), ("cache_write_tokens", "written to the cache"))
        if request[field]
    ]
    reasoning = f" ({count(request['reasoning_tokens'])} reasoning)" if request["reasoning_tokens"] else ""
    cached = f" ({', '.join(kinds)})" if kinds else ""
    searches = f", {counted(request['searches'], 'web search', 'web searches')}" if request["searches"] else ""
    estimated = ", estimated" if request["estimated"] else ""
    given, written = count(request["input_tokens"]), count(request["output_tokens"])
    return f"{given} in{cached}, {written} out{reasoning}{searches}{estimated}"


def _cache(request: Row) -> Iterator[str]:
    """Yield how much of the input was read from the cache, in the request and in its session, and why not more."""
    rate = request.get("cache_hit_rate")
    if rate is None:
        yield "unknown: the upstream does not say what it has read" if request["input_tokens"] else "no input"
    else:
        written = request["cache_write_tokens"]
        more = f", {count(written)} written" if written else ""
        yield f"{_share(rate)} read{more}, {count(request['fresh_tokens'])} missed"
    if request.get("session_requests"):
        read = request["session_hit_rate"]
        of = f"{_share(read)} of {count(request['session_input_tokens'])} read" if read is not None else "unknown"
        yield f"session {request['session']}: {counted(request['session_requests'], 'request')}, {of}"
    if request.get("cache_missed"):
        yield f"not as in {request['compared_with']}: {request['cache_missed']}"


def _share(rate: float) -> str:
    return f"{100 * rate:.0f} %"


def _cost(request: Row) -> str:
    return "unknown" if request["cost"] is None else f"{request['cost']:.6f} {request['currency']}"
