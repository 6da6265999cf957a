"""Requests that pass through as they are: embeddings, images, audio, files, batches.

In: a request to an endpoint that no codec knows. Out: where it may go, and what is sent. A request that names a model
goes where the model's name leads. Others go to a provider that speaks a protocol of the same vendor; those about
stored objects always to the same one, because a client asks for them by id.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from msgspec import Struct

from trilogue.base.json_text import read_pairs
from trilogue.errors import BadRequest, ClientError
from trilogue.gateway.request.call import read_named, with_model
from trilogue.gateway.request.large_bodies import LARGE_BYTES, in_thread
from trilogue.gateway.request.outbound import Outbound, Place
from trilogue.gateway.request.ownership import (
    NamedObjects,
    check_objects,
    is_guarded,
    models_of,
    models_of_query,
    object_store,
    objects_of,
    subject_of,
)
from trilogue.gateway.request.request import RequestContext, watching
from trilogue.gateway.request.uploads import BATCH, BatchLines, FormReader, HeldUpload, boundary_of
from trilogue.model import Protocol
from trilogue.net.client.interface import UpstreamRequest
from trilogue.protocols.endpoint import OtherEndpoint
from trilogue.protocols.registry import CODECS
from trilogue.routing.model_names import NoRoute
from trilogue.routing.router import ProviderModel
from trilogue.upstreams.headers import with_query
from trilogue.upstreams.provider import UpstreamProvider

_ENDINGS = ("/cancel", "/pause")
"""the ends of paths at which nothing is made, although they are asked with POST"""
_FILES = "/v1/files"
_SEARCH = "/search"
"""the end of a path that only looks at an object, although it is asked with POST"""
PROVIDER_HEADER = "trilogue-provider"
"""the header by which a client names the provider, where there are several that fit"""


class OtherRoute(Struct, frozen=True):
    """An endpoint that is passed through, and the protocols of the vendor that has it."""

    endpoint: OtherEndpoint
    protocols: tuple[Protocol, ...]

    @property
    def object_fields(self) -> frozenset[str]:
        """Request fields with ids of objects."""
        return CODECS[self.protocols[0]].endpoint.all_object_fields

    @property
    def reference_fields(self) -> tuple[str, ...]:
        """Fields with ids of any kind, also those of earlier responses, in requests inside of a batch."""
        states = [field for one in self.protocols for field in CODECS[one].endpoint.state_fields]
        return (*sorted(self.object_fields), *states)

    @property
    def model_fields(self) -> tuple[str, ...]:
        """Request fields that name more models."""
        return CODECS[self.protocols[0]].endpoint.model_fields

    def protocol_for(self, provider: UpstreamProvider) -> Protocol | None:
        """Return the protocol whose address and headers a provider is asked with; None if it speaks none of them."""
        return next((one for one in self.protocols if one in provider.protocols), None)


class OtherCall(Struct, frozen=True, kw_only=True):
    """A request that can be sent. `model`: "" if it names none. `upload`: takes the place of `body`."""

    route: OtherRoute
    model: str = ""
    body: bytes = b""
    upload: HeldUpload | None = None


class NoProvider(ClientError):
    """No provider has the endpoint. The message says which would."""

    status = 404

    def __init__(self, route: OtherRoute, path: str, text: str = "") -> None:
        speak = " or ".join(protocol.short for protocol in route.protocols)
        vendor = CODECS[route.protocols[0]].endpoint.vendor
        reason = text or "no provider here has it"
        super().__init__(
            f"{path[:200]} is for a provider that speaks {speak}, such as {vendor}: {reason}", code="no_provider"
        )


async def read_other(context: RequestContext, route: OtherRoute) -> OtherCall:
    """Read a request: all of it if it is JSON, else only as much as it takes to find the model.

    Raises BadRequest for a form that servers may read in different ways, also later, while it is sent on.
    """
    request, server = context.request, context.entry.gateway.settings
    if request.declared_length == 0:
        return OtherCall(route=route)
    kind, guarded = request.headers.get("content-type", ""), is_guarded(context)
    boundary = boundary_of(kind)
    # Some servers read JSON whatever it is called. It must not refer to another client's objects.
    if _is_json(kind) or (boundary is None and guarded):
        body = await request.body(server.max_body_bytes)
        if context.byte_observers is not None and context.byte_observers.inbound_request is not None:
            context.byte_observers.inbound_request(body)
        named = await in_thread(read_named, body) if len(body) > LARGE_BYTES else read_named(body)
        if guarded and route.endpoint.objects and BATCH in read_pairs(named.body).all("purpose"):
            # Its parts come later, and do not say what they are for.
            raise BadRequest(f"send a file for a batch as a form to {_FILES}", path="purpose")
        return OtherCall(route=route, model=named.model, body=named.body)
    form, lines = None, None
    if boundary is not None and (route.endpoint.models or guarded):
        form = FormReader(boundary, route.object_fields if guarded else ())
        lines = BatchLines(route.reference_fields) if guarded and route.endpoint.objects else None
    upload = HeldUpload(request, server.max_upload_bytes, form, lines)
    if route.endpoint.models:
        await upload.find_model(server.max_body_bytes)
    return OtherCall(route=route, model=upload.model.name if upload.model is not None else "", upload=upload)


async def check_objects_of(context: RequestContext, call: OtherCall, targets: Sequence[ProviderModel]) -> None:
    """Raise UnknownObject if a request is about an object that its client may not use, or refers to one."""
    if not is_guarded(context):
        return
    route, providers = call.route, {target.provider for target in targets}
    if route.endpoint.objects:
        object_store(context)
    subject = subject_of(context.entry.path, route.endpoint) if route.endpoint.objects else ""
    if subject:
        changes = context.request.method != "GET" and not context.entry.path.endswith(_SEARCH)
        await check_objects(context, NamedObjects(frozenset({subject})), providers, changes=changes)
    if call.body:
        work = partial(objects_of, call.body, route.object_fields, route.endpoint.everyones)
        await check_objects(context, await in_thread(work) if len(call.body) > LARGE_BYTES else work(), providers)


def makes_something(context: RequestContext) -> bool:
    """Return whether a request may run a model or make an object. Looking, deleting and cancelling do not."""
    return context.request.method == "POST" and not context.entry.path.endswith(_ENDINGS)


def named_models(context: RequestContext, call: OtherCall) -> list[str]:
    """Return every model that a request may use; none if the request does not tell. Raises BadRequest."""
    route, endpoint = call.route, call.route.endpoint
    if context.entry.path != endpoint.path or not endpoint.models:
        return []
    names = models_of_query(context.entry.query)
    if call.upload is not None:
        own = [call.model] if call.model else []
    else:
        own = models_of(call.body, endpoint.models) if call.body else []
    if not own:
        # Then a server runs one that it chooses itself.
        return []
    return [*names, *own, *(models_of(call.body, route.model_fields) if call.body else ())]


def _is_json(content_type: str) -> bool:
    kind = content_type.partition(";")[0].strip().lower()
    return kind in ("", "application/json") or kind.endswith("+json")


async def find_targets(context: RequestContext, call: OtherCall) -> tuple[ProviderModel, ...]:
    """Return where a request may go, in order of preference. Raises ClientError if it can go nowhere."""
    route, path = call.route, context.entry.path
    fitting = _fitting(context, route)
    if not fitting:
        raise NoProvider(route, path)
    by_name = _by_name(context, call)
    if route.endpoint.objects:
        # Whatever model it names: later requests about the object name none.
        home = fitting[0].name
        renamed = next((target.model for target in by_name if target.provider == home), call.model)
        return (ProviderModel(home, renamed),)
    names = [provider.name for provider in fitting]
    found = tuple(target for target in by_name if target.provider in names)
    if found:
        return found
    elsewhere = [target.provider for target in by_name if target.model != call.model]
    if elsewhere:
        raise NoProvider(route, path, f"the model {call.model[:80]} goes to {elsewhere[0]}")
    if call.model and len(fitting) > 1:
        with watching(context):
            fitting = await context.entry.gateway.upstreams.catalog.offering(call.model, fitting) or fitting
    listed = [provider for provider in fitting if provider.other_endpoints is not None]
    return tuple(ProviderModel(provider.name, call.model) for provider in listed or fitting[:1])


def _fitting(context: RequestContext, route: OtherRoute) -> list[UpstreamProvider]:
    """Return the providers that may have an endpoint: those that list it first, then the vendor's own API."""
    path, wanted = context.entry.path, context.request.headers.get(PROVIDER_HEADER, "")
    providers: Sequence[UpstreamProvider] = list(context.entry.gateway.upstreams.providers.values())
    fitting = [one for one in providers if one.may_have(path) and route.protocol_for(one) is not None]
    if wanted:
        fitting = [one for one in fitting if one.name == wanted]
        if not fitting:
            raise BadRequest(f"{PROVIDER_HEADER} must name a provider that has {path[:200]}", path=PROVIDER_HEADER)
    return sorted(fitting, key=lambda one: (one.other_endpoints is None, not one.official))


def _by_name(context: RequestContext, call: OtherCall) -> tuple[ProviderModel, ...]:
    """Return the targets that the configuration has for the model; none if it has none, or there is no model."""
    if not call.model:
        return ()
    try:
        return context.entry.gateway.models.routed(call.model, context.entry.client)
    except NoRoute:
        return ()


def other_outbound(context: RequestContext, call: OtherCall, place: Place) -> Outbound:
    """Return what is sent to an account: the client's bytes, with the model's name changed if needed."""
    request, entry, provider = context.request, context.entry, place.provider
    protocol = call.route.protocol_for(provider) or call.route.protocols[0]
    body = call.body
    if call.upload is None and place.model != call.model:
        body = with_model(body, call.model, place.model)
    kinds = [(name, request.headers[name]) for name in ("content-type", "accept") if name in request.headers]
    version = provider.version(place.model, protocol)
    return Outbound(
        UpstreamRequest(
            method=request.method,
            url=with_query(provider.url(protocol, entry.path), entry.query),
            headers=place.account.passing((*entry.forwarded, *kinds), version, protocol),
            body=body,
            timeouts=provider.timeouts,
            upload=call.upload.source(place.model) if call.upload is not None else None,
        ),
        None,
        [],
        protocol,
        adjustable=False,
    )
