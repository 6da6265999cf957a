"""The steps that fit a request to its model, in order: later steps depend on what earlier ones decided.

Whether the model will reason decides which sampling parameters it accepts, so thinking comes first. A schema that goes
into the prompt adds a turn, so the conversation comes last.
"""

from __future__ import annotations

from trilogue.model import NO_SAMPLING, Protocol, Request
from trilogue.protocols.codec import EncodingContext
from trilogue.protocols.fit.caching import fit_caching, fit_compatible, fit_identity, fit_include
from trilogue.protocols.fit.content import fit_content
from trilogue.protocols.fit.output import fit_format, fit_limit, fit_verbosity
from trilogue.protocols.fit.sampling import emulated_stops, fit_sampling, fit_stops
from trilogue.protocols.fit.thinking import fit_thinking
from trilogue.protocols.fit.tools import fit_tools
from trilogue.vendors.profile import Profile

__all__ = ["FITTED", "emulated_stops", "fit_request"]

_ONLY_TRANSLATED = frozenset(
    {
        "adds_caching",
        "agents",
        "billing_block",
        "call_signatures",
        "compacts",
        "context_window",
        "fills_arguments",
        "keeps_state",
        "max_output",
        "orphaned_calls",
        "raw_as_summary",
        "raw_reasoning",
        "think_tags",
        "version",
        "tool_search",
    }
)
"""fields of a profile that say how something is translated, or that other steps use"""
FITTED = frozenset(Profile.__struct_fields__) - _ONLY_TRANSLATED
"""fields of a profile that requests are fitted to, also requests that stay in their protocol"""


def fit_request(request: Request, out: EncodingContext, target: Protocol) -> Request:
    """Return the request as the model accepts it, with all changes declared."""
    if request.tools or request.tool_choice is not None or request.parallel_tools is not None:
        request = fit_tools(request, out)
    # Reasoning may have to be switched off even if the client did not mention it: gpt-5.4 and later refuse
    # function tools in Chat while they reason.
    if request.thinking is not None or (request.tools and not out.profile.tools_with_reasoning) or request.tool_choice:
        request = fit_thinking(request, out, target)
    if request.sampling is not NO_SAMPLING:
        request = fit_sampling(request, out, target)
        if request.sampling.max_tokens is not None:
            request = fit_limit(request, out)
        if request.sampling.stop:
            request = fit_stops(request, out)
    if request.format is not None:
        request = fit_format(request, out, target)
    if request.verbosity is not None:
        request = fit_verbosity(request, out)
    if request.caching is not None or request.tier is not None:
        request = fit_caching(request, out, target)
    if request.user is not None:
        request = fit_identity(request, out)
    if out.native:
        request = fit_include(fit_compatible(request, out), out)
    return fit_content(request, out)
