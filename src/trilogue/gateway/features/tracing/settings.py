"""The settings of traces: what is wrong with them, and what the environment says about them.

OpenTelemetry's own variables (`OTEL_…`) hold for what the configuration does not set. Most of them are read by its SDK.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Annotated

from msgspec import Meta, Struct, field

from trilogue.base.addresses import leads_to_loopback, url_fault
from trilogue.base.problems import Findings, check_headers
from trilogue.base.secrets import Secret

TRACES_PATH = "/v1/traces"
EXPORTER = "opentelemetry.exporter.otlp.proto.http"
_PROTOCOL = "http/protobuf"
_PROTOCOL_VARIABLES = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
ENDPOINT_VARIABLES = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_EXPORTERS = ("", "otlp", "none")


class TracingSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Traces for OpenTelemetry. They need the extra `otel`: `pip install 'trilogue[otel]'`."""

    enabled: bool = False
    """whether spans are made and exported"""
    endpoint: str = ""
    """where spans are sent, over HTTP; default: `OTEL_EXPORTER_OTLP_ENDPOINT`, or `http://localhost:4318`"""
    headers: dict[str, Secret] = field(default_factory=dict)
    """headers of the requests to that address, such as the key of a vendor"""
    service_name: str = ""
    """the name of the service in traces; default: `OTEL_SERVICE_NAME`, or `trilogue`"""
    sample_ratio: Annotated[float, Meta(ge=0, le=1)] | None = None
    """the part of the traces that begin here which is recorded; default: `OTEL_TRACES_SAMPLER`, or all"""
    content: bool = False
    """whether spans have the messages of requests and responses"""
    propagate: bool = True
    """whether upstreams get the headers `traceparent` and `tracestate`"""
    baggage: bool = False
    """whether upstreams get the client's header `baggage`"""

    @property
    def url(self) -> str:
        """The URL that spans are sent to; empty if the environment decides."""
        base = self.endpoint.rstrip("/")
        return base if not base or base.endswith(TRACES_PATH) else f"{base}{TRACES_PATH}"

    def wanted(self, environ: Mapping[str, str]) -> bool:
        """Return whether to make traces: the environment can switch them off."""
        disabled = environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
        return self.enabled and not disabled and environ.get("OTEL_TRACES_EXPORTER", "").strip() != "none"


def tracing_problem(settings: TracingSettings, environ: Mapping[str, str]) -> str | None:
    """Return why traces cannot be made although they are wanted, or None."""
    if not settings.wanted(environ):
        return None
    if not is_installed():
        return "tracing: needs OpenTelemetry, which is not installed: pip install 'trilogue[otel]'"
    exporter = environ.get("OTEL_TRACES_EXPORTER", "").strip()
    if exporter not in _EXPORTERS:
        return "tracing: OTEL_TRACES_EXPORTER must be otlp or none: spans are sent to an OTLP receiver"
    protocol = next((environ[name].strip() for name in _PROTOCOL_VARIABLES if environ.get(name, "").strip()), _PROTOCOL)
    if protocol != _PROTOCOL:
        return f"tracing: OTEL_EXPORTER_OTLP_PROTOCOL must be {_PROTOCOL}: spans are sent over HTTP"
    return None


def is_installed() -> bool:
    """Return whether the packages of the extra `otel` are there."""
    try:
        return find_spec(EXPORTER) is not None and find_spec("opentelemetry.sdk.trace") is not None
    except ModuleNotFoundError:
        return False


def check_tracing(tracing: TracingSettings) -> Findings:
    """Yield what makes the settings of traces unusable."""
    if tracing.endpoint and (tracing.endpoint.startswith("demo") or url_fault(tracing.endpoint)):
        yield "tracing.endpoint", "must be an http(s) URL without a user, a password or a key; put the key into headers"
    yield from check_headers("tracing.headers", tracing.headers)


def tracing_warnings(tracing: TracingSettings) -> Findings:
    """Yield what works but is probably a mistake or a risk."""
    if not tracing.enabled and tracing != TracingSettings():
        yield "tracing", "traces are off because tracing.enabled is not true"
    if tracing.endpoint.startswith("http://") and not leads_to_loopback(tracing.endpoint):
        if tracing.content:
            yield "tracing.endpoint", "http:// sends prompts and responses unencrypted"
        elif tracing.headers:
            yield "tracing.endpoint", "http:// sends the headers unencrypted"
