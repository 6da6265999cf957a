"""Google's Gemini API, and Vertex, its cloud."""

from __future__ import annotations

from trilogue.vendors.price import REGISTRIES, REGISTRIES_DATED, PriceRow, quoted, rates
from trilogue.vendors.profile import ALL_MODELS, ProfileRow, context_window, levels
from trilogue.vendors.vendor import CHAT, ModelFamily, Parameter, Preset, Vendor

_SOURCE = f"{REGISTRIES}; api-evangelist/gemini"

_PROFILES = (
    ProfileRow(
        vendors="gemini",
        protocols="chat",
        models=r"gemini-2\.5(?!-pro)",
        takes={"reasons": "default", "efforts": levels("none minimal low medium high")},
        what="effort none is accepted by 2.5 models, except Pro",
        sure="documented",
        sources=("HKUDS/DeepTutor#809", "mozilla-ai/any-llm#1294", "page: OpenAI compatibility, Gemini API"),
        example="gemini-2.5-flash",
    ),
    ProfileRow(
        vendors="gemini",
        protocols="chat",
        models=r"gemini-[12]\.[0-4]|gemma",
        takes={"reasons": "never", "efforts": ()},
        what="do not reason",
        sure="choice",
        example="gemini-2.0-flash",
    ),
    ProfileRow(
        vendors="gemini",
        protocols="chat",
        models=ALL_MODELS,
        takes={"reasons": "always", "efforts": levels("minimal low medium high")},
        what="effort minimal to high",
        sure="documented",
        sources=("page: OpenAI compatibility, Gemini API", "mozilla-ai/any-llm#1294"),
        example="gemini-2.5-pro",
    ),
    ProfileRow(
        vendors="gemini",
        protocols="chat",
        models=ALL_MODELS,
        takes={
            "penalties": False,
            "seed": False,
            "logprobs": False,
            "user": False,
            "parallel_tools": False,
            "strict_tools": False,
            "message_names": False,
        },
        what="unknown fields are a 400 (top_k, store, metadata, frequency_penalty, …)",
        sure="several",
        sources=("MinLL/SkyrimNet-GamePlugin#77", "leookun/cursor-byok#112", "n4ze3m/page-assist#418"),
        example="gemini-2.5-pro",
    ),
    ProfileRow(
        vendors="gemini",
        protocols="chat",
        models=ALL_MODELS,
        takes={"call_signatures": True},
        what="from Gemini 3 on, tool calls of the current turn must be sent back with their signature",
        sure="several",
        sources=("labring/aiproxy#450", "langbot-app/LangBot#1899", "lbjlaq/Antigravity-Manager#938"),
        example="gemini-3-pro-preview",
    ),
    context_window("gemini", r"gemini-2\.[05]-(pro|flash)", 1_048_576, "gemini-2.5-pro"),
    context_window("gemini", r"gemini-3", 1_000_000, "gemini-3-pro-preview"),
)


def _until(models: str, listed: str, until: str, after: str) -> PriceRow:
    """Return a row of prices that hold up to a day."""
    return PriceRow(
        vendor="gemini",
        models=tuple(models.split()),
        rates=rates(listed),
        until=until,
        after=rates(after),
        source=_SOURCE,
        dated=REGISTRIES_DATED,
    )


_PRICES = (
    _until("gemini-4-argon", "input=2 cache_read=0.1 output=10", "2026-11-30", "input=4 cache_read=0.2 output=20"),
    _until(
        "gemini-3.8-flash gemini-3.7-flash gemini-3.6-flash gemini-flash-latest",
        "input=0.75 cache_read=0.075 output=3.75",
        "2026-12-31",
        "input=1.5 output=7.5",
    ),
    quoted("gemini", "gemini-3.5-flash", "input=1.5 cache_read=0.15 output=9", _SOURCE),
    quoted("gemini", "gemini-3.5-flash-lite gemini-flash-lite-latest", "input=0.3 cache_read=0.03 output=2.5"),
    quoted(
        "gemini",
        "gemini-3.1-pro-preview gemini-3.1-pro-preview-customtools gemini-pro-latest",
        "input=2 cache_read=0.2 output=12",
        up_to=200_000,
        above=rates("input=4 cache_read=0.4 output=18"),
    ),
    quoted("gemini", "gemini-3.1-flash-lite gemini-3.1-flash-lite-preview", "input=0.25 cache_read=0.025 output=1.5"),
    quoted("gemini", "gemini-3-flash-preview", "input=0.5 cache_read=0.05 output=3"),
    quoted(
        "gemini",
        "gemini-2.5-pro",
        "input=1.25 cache_read=0.125 output=10",
        up_to=200_000,
        above=rates("input=2.5 cache_read=0.25 output=15"),
    ),
    quoted("gemini", "gemini-2.5-flash", "input=0.3 cache_read=0.03 output=2.5"),
    quoted("gemini", "gemini-2.5-flash-lite", "input=0.1 cache_read=0.01 output=0.4"),
)

VENDOR = Vendor(
    name="gemini",
    preset=Preset(
        name="gemini",
        urls={CHAT: "https://generativelanguage.googleapis.com/v1beta/openai"},
        variable="GEMINI_API_KEY",
        model="gemini-2.5-flash",
    ),
    other_names=("google",),
    routed_names=("google", "gemini"),
    imported_names=("google",),
    hosts=r"generativelanguage\.googleapis\.com|.*aiplatform\.googleapis\.com",
    key_prefixes=("AIza",),
    models=r"gemini",
    families=(ModelFamily("gemini-*"),),
    profiles=_PROFILES,
    prices=_PRICES,
)

VERTEX = Vendor(
    name="vertex",
    preset=Preset(
        name="vertex",
        urls={
            CHAT: "https://{region}-aiplatform.googleapis.com/v1/projects/{project}/locations/{region}/endpoints/openapi"
        },
        command="gcloud auth print-access-token",
        model="google/gemini-2.5-flash",
        parameters=(
            Parameter(name="project", what="the id of the Google Cloud project", variables=("GOOGLE_CLOUD_PROJECT",)),
            Parameter(
                name="region",
                what="the Google Cloud location, such as europe-west1",
                variables=("GOOGLE_CLOUD_LOCATION",),
                fallback="global",
            ),
        ),
    ),
)
