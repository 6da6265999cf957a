"""OpenAI, and Azure, which has the same models: their rows in Chat Completions and in Responses apply to both.

Prices are for standard processing, in US dollars. Batch, Flex, Fast and regional processing cost other prices. Rows of
OpenAI's own pages were read from stored copies of them; the others come from packages that list OpenAI's prices.
Hosted tools have a fee per call that the usage of a response does not show, so it is not part of any cost here.
"""

from __future__ import annotations

from trilogue.vendors.price import PriceRow, quoted, rates
from trilogue.vendors.profile import ALL_MODELS, ProfileRow, context_window, levels, tiers_but
from trilogue.vendors.vendor import CHAT, RESPONSES, ModelFamily, Parameter, Preset, Vendor

_BOTH = "openai azure"
_NO_REASONING = r"gpt-4|gpt-3|chatgpt-4|gpt-5-chat"
_REASONING = r"o[1-9]|gpt-5(?!(\.\d+)?-chat)|gpt-[6-9]|codex"
# Models whose reasoning cannot be switched off. Of gpt-5.1 and later, only the codex and pro versions are among them.
_ALWAYS = r"o[1-9]|gpt-5(?!\.)(?!-chat)|gpt-5\.\d+-(codex|pro)|codex|gpt-[6-9]"
_PAGES = "https://developers.openai.com/api/docs/models/"
_LONG = 272_000
"""input tokens from which the newer models cost more"""


def _efforts(models: str, names: str, example: str) -> ProfileRow:
    """Return the row for the effort levels of some models."""
    return ProfileRow(
        vendors=_BOTH,
        protocols="chat responses",
        models=models,
        takes={"efforts": levels(names)},
        what=f"effort levels: {names.replace(' ', ', ') or 'none at all'}",
        sure="documented",
        sources=("enricoros/big-AGI#944", "enricoros/big-AGI#1159", "anomalyco/models.dev#2296"),
        example=example,
    )


def _limit(models: str, tokens: int, example: str) -> ProfileRow:
    """Return the row for the output limit of some models."""
    return ProfileRow(
        vendors=_BOTH,
        protocols="chat responses",
        models=models,
        takes={"output_limit": tokens},
        what=f"at most {tokens:,} output tokens",
        sure="documented",
        sources=("charmbracelet/catwalk#41", "tailcallhq/forgecode#1185", "page: GPT-4o Model, OpenAI API"),
        example=example,
    )


_EFFORTS = (
    # The order matters: the first pattern that matches a name counts.
    _efforts(r"gpt-5\.\d+-chat", "medium", "gpt-5.2-chat-latest"),
    _efforts(r"gpt-5-pro", "high", "gpt-5-pro"),
    _efforts(r"gpt-5\.\d+-pro", "medium high xhigh", "gpt-5.4-pro"),
    _efforts(r"gpt-5-codex|gpt-5\.1-codex(?!-max)|codex-mini", "low medium high", "gpt-5-codex"),
    _efforts(r"gpt-5\.1-codex-max", "none low medium high xhigh", "gpt-5.1-codex-max"),
    _efforts(r"gpt-5\.\d+-codex", "low medium high xhigh", "gpt-5.3-codex"),
    _efforts(r"gpt-5\.1(?!\d)", "none low medium high", "gpt-5.1"),
    _efforts(r"gpt-5\.[2345](?!\d)", "none low medium high xhigh", "gpt-5.2"),
    _efforts(r"gpt-5\.", "none low medium high xhigh max", "gpt-5.6"),
    _efforts(r"gpt-5", "minimal low medium high", "gpt-5-mini"),
    _efforts(r"gpt-[6-9]", "low medium high xhigh max", "gpt-6"),
    _efforts(r"o[1-9]|codex", "low medium high", "o3"),
)

_REASONS = (
    ProfileRow(
        vendors=_BOTH,
        protocols="chat responses",
        models=_NO_REASONING,
        takes={"reasons": "never", "efforts": (), "summaries": (), "encrypted_reasoning": False},
        what="models that do not reason accept no effort and no summary, and return no encrypted reasoning",
        sure="several",
        sources=("BoundaryML/baml#2708", "pydantic/pydantic-ai#2865", "openai/openai-python#2194"),
        example="gpt-4.1",
    ),
    ProfileRow(
        vendors=_BOTH,
        protocols="chat responses",
        models=rf"{_ALWAYS}|gpt-5\.\d+-chat",
        takes={"reasons": "always"},
        what="always reason",
        sure="documented",
        sources=("anomalyco/models.dev#2351",),
        example="gpt-5",
    ),
    ProfileRow(
        vendors=_BOTH,
        protocols="chat responses",
        models=r"gpt-5\.[1-4](?!\d)",
        takes={"reasons": "asked"},
        what="reason only if an effort is set",
        sure="documented",
        sources=("anomalyco/models.dev#2296", "anomalyco/models.dev#2351"),
        example="gpt-5.1",
    ),
    ProfileRow(
        vendors=_BOTH,
        protocols="chat",
        models=r"gpt-5\.([4-9]|\d\d)(?!\d|-chat)",
        takes={"tools_with_reasoning": False},
        what="Chat accepts function tools only without reasoning; Responses accepts both",
        sure="documented",
        sources=("openai/openai-openapi#541", "BerriAI/litellm#34569", "pipecat-ai/pipecat#4043"),
        example="gpt-5.4",
    ),
    ProfileRow(
        vendors=_BOTH,
        protocols="responses",
        models=r"gpt-5(-mini|-nano|-2025|$)",
        takes={"summaries": ("auto", "detailed")},
        what="summaries are detailed or auto only",
        sure="several",
        sources=("openai/codex#2376", "openai/codex#2625", "BerriAI/litellm#16549"),
        example="gpt-5-nano",
    ),
)

_TOOLS = (
    ProfileRow(
        vendors=_BOTH,
        protocols="responses",
        models=r"gpt-[34]|o\d|codex-|computer-use|gpt-5(-|$)|gpt-5\.[1-3](?!\d)",
        takes={"tool_search": False},
        what="no search for deferred tools before gpt-5.4: the gateway runs it",
        sure="documented",
        sources=("page: Tool search, OpenAI API",),
        example="gpt-5.1",
    ),
)

_SAMPLING = (
    ProfileRow(
        vendors=_BOTH,
        protocols="chat",
        models=r"gpt-4o(-mini)?-search",
        takes={"sampling": False, "web_search": True, "penalties": False, "several_choices": False},
        what="search models search the web and accept no sampling parameters",
        sure="several",
        sources=("vercel/ai#5609", "crmne/ruby_llm#155", "charmbracelet/mods#480"),
        example="gpt-4o-search-preview",
    ),
    ProfileRow(
        vendors=_BOTH,
        protocols="chat",
        models=r"gpt-.*-search",
        takes={"web_search": True},
        what="search models search the web",
        sure="documented",
        sources=("rec: gpt-4o, Web search options not supported with this model",),
        example="gpt-5-search-api",
    ),
    ProfileRow(
        vendors=_BOTH,
        protocols="chat responses",
        models=_REASONING,
        takes={"sampling_with_reasoning": False},
        what="temperature and top_p other than 1 are accepted only without reasoning",
        sure="documented",
        sources=("vercel/ai#10940", "openai/openai-python#2072", "griptape-ai/griptape#1915"),
        example="gpt-5.1",
    ),
    ProfileRow(
        vendors=_BOTH,
        protocols="chat responses",
        models=_REASONING,
        takes={"logprobs": False},
        what="models that reason return no token probabilities",
        sure="several",
        sources=("confident-ai/deepeval#2184", "UKGovernmentBEIS/inspect_ai#2739", "vercel/ai#10940"),
        example="o4-mini",
    ),
    ProfileRow(
        vendors=_BOTH,
        protocols="chat",
        models=_REASONING,
        takes={"penalties": False},
        what="models that reason accept no penalties and no logit_bias",
        sure="several",
        sources=("nextai-translator/nextai-translator#1781", "stanford-crfm/helm#3617"),
        example="o1",
    ),
    ProfileRow(
        vendors=_BOTH,
        protocols="chat",
        models=r"o3(?!-mini)|o4|gpt-5(?!(\.\d+)?-chat)|gpt-[6-9]",
        takes={"max_stops": 0},
        what="no stop sequences",
        sure="several",
        sources=("langgenius/dify#18971", "huggingface/smolagents#1671", "crewAIInc/crewAI#2738"),
        example="o3",
    ),
    ProfileRow(
        vendors=_BOTH,
        protocols="chat",
        models=ALL_MODELS,
        takes={"max_stops": 4},
        what="at most four stop sequences",
        sure="documented",
        sources=("page: OpenAI API reference, Create chat completion",),
        example="gpt-4o",
    ),
    ProfileRow(
        vendors=_BOTH,
        protocols="chat",
        models=r"o[1-9]",
        takes={"parallel_tools": False},
        what="no parallel_tool_calls in Chat",
        sure="several",
        sources=("langchain-ai/langchain#29704", "evalstate/fast-agent#279", "tensorzero/tensorzero#2805"),
        example="o3-mini",
    ),
)

_OUTPUT = (
    ProfileRow(
        vendors=_BOTH,
        protocols="chat responses",
        models=r"gpt-4|gpt-3|chatgpt-4|gpt-5-chat|o[1-9]|gpt-5(\.\d)?-codex",
        takes={"verbosity": False},
        what="a verbosity other than medium is accepted only from gpt-5 on, and not by Codex models",
        sure="documented",
        sources=("enricoros/big-AGI#947", "google-deepmind/concordia#164"),
        example="gpt-5-codex",
    ),
    _limit(r"gpt-4o|chatgpt-4o", 16_384, "gpt-4o-mini"),
    _limit(r"gpt-4\.1", 32_768, "gpt-4.1-nano"),
    _limit(r"gpt-4-turbo|gpt-3\.?5", 4_096, "gpt-4-turbo"),
    _limit(r"gpt-4(-0|-32k|$)", 8_192, "gpt-4"),
    _limit(r"gpt-5-chat|gpt-5\.\d+-chat", 16_384, "gpt-5-chat-latest"),
    _limit(r"gpt-5", 128_000, "gpt-5.2"),
    _limit(r"o[1-9]", 100_000, "o1"),
    ProfileRow(
        vendors=_BOTH,
        protocols="responses",
        models=ALL_MODELS,
        takes={"least_output": 16},
        what="max_output_tokens must be at least 16",
        sure="documented",
        sources=("sdk: litellm openai/responses/transformation.py",),
        example="gpt-4o",
    ),
    ProfileRow(
        vendors=_BOTH,
        protocols="chat responses",
        models=ALL_MODELS,
        takes={"json_word": True},
        what="json_object requires the word json in the messages or the input",
        sure="several",
        sources=("mem0ai/mem0#3559", "browserbase/stagehand#1204", "miracodeai/mira#267"),
        example="gpt-4o",
    ),
    ProfileRow(
        vendors=_BOTH,
        protocols="chat responses",
        models=ALL_MODELS,
        takes={"strict_schemas": True, "plain_tool_schemas": True},
        what=(
            "strict schemas must close every object and require every property; the schema of a function must "
            "be a plain object"
        ),
        sure="documented",
        sources=("page: Structured model outputs, OpenAI API", "langchain-ai/langchainjs#9804", "Soju06/codex-lb#495"),
        example="gpt-4o",
    ),
)

_CONTENT = (
    ProfileRow(
        vendors=_BOTH,
        protocols="chat responses",
        models=r"o3-mini|o1-mini|gpt-3\.?5|gpt-4(-0|-32k|$)",
        takes={"images": False},
        what="these models accept no images",
        sure="several",
        sources=("browser-use/browser-use#283", "appatalks/eva-agent#65"),
        example="o3-mini",
    ),
    ProfileRow(
        vendors=_BOTH,
        protocols="chat",
        models=r"(?!.*audio)",
        takes={"audio": False},
        what="only audio models accept audio",
        sure="documented",
        sources=("rec: gpt-5-mini, content blocks are expected to be either text or image_url type",),
        example="gpt-5-mini",
    ),
    ProfileRow(
        vendors=_BOTH,
        protocols="chat",
        models=r"(?!gpt-[5-9]|o[1-9]|codex)(gpt-|chatgpt)",
        takes={"developer_role": False},
        what="older models have only the system role",
        sure="choice",
        example="gpt-4o",
    ),
)

_CACHING = (
    ProfileRow(
        vendors=_BOTH,
        protocols="chat responses",
        models=r"(?!gpt-(5\.([6-9]|\d\d)|[6-9]|\d\d))",
        takes={"cache_marks": False, "prewarm": False},
        what="explicit cache marks, prompt_cache_options and prewarming are accepted from gpt-5.6 on",
        sure="several",
        sources=("Kilo-Org/kilocode#13052", "BerriAI/litellm#33814", "page: Prompt caching, OpenAI API"),
        example="gpt-5.4",
    ),
    ProfileRow(
        vendors="openai",
        protocols="chat responses",
        models=r"gpt-4o|gpt-5\.([6-9]|\d\d)|gpt-[6-9]|o[1-9]|gpt-3",
        takes={"cache_retention": False},
        what="prompt_cache_retention is accepted only by the models that OpenAI lists; removed with gpt-5.6",
        sure="documented",
        sources=("anomalyco/opencode#5149", "CodeWithCJ/SparkyFitness#2199", "page: Prompt caching, OpenAI API"),
        example="gpt-4o",
    ),
    ProfileRow(
        vendors="azure",
        protocols="chat responses",
        models=ALL_MODELS,
        takes={"cache_retention": False},
        what="no prompt_cache_retention",
        sure="several",
        sources=("OpenHands/software-agent-sdk#2295", "OpenHands/software-agent-sdk#2311"),
        example="gpt-5.2",
    ),
    ProfileRow(
        vendors=_BOTH,
        protocols="chat responses",
        models=r"gpt-4|gpt-3|chatgpt-4|o1|o3-mini|gpt-5-chat",
        takes={"tiers": tiers_but("flex")},
        what="flex processing exists for o3, o4-mini, gpt-5 and later",
        sure="documented",
        sources=("vercel/ai#18589", "page: Flex processing, OpenAI API"),
        example="gpt-4o",
    ),
    ProfileRow(
        vendors=_BOTH,
        protocols="chat",
        models=ALL_MODELS,
        takes={"top_k": False},
        what="unknown fields are an error",
        sure="documented",
        sources=("run-llama/llama_index#17731", "sdk: openai CompletionCreateParams"),
        example="gpt-4o",
    ),
    ProfileRow(
        vendors=_BOTH,
        protocols="responses",
        models=ALL_MODELS,
        takes={"raw_reasoning": False},
        what="reasoning that is sent back has only summary and encrypted_content, no content",
        sure="several",
        sources=("musistudio/claude-code-router#1783",),
        example="gpt-5",
    ),
)

_WINDOWS = (
    context_window(_BOTH, r"gpt-3\.5", 16_385, "gpt-3.5-turbo"),
    context_window(_BOTH, r"gpt-4o|chatgpt-4o|gpt-4-turbo|gpt-5(\.\d+)?-chat", 128_000, "gpt-4o"),
    context_window(_BOTH, r"gpt-4\.1", 1_047_576, "gpt-4.1"),
    context_window(_BOTH, r"o1-(mini|preview)", 128_000, "o1-mini"),
    context_window(_BOTH, r"o[1-9]", 200_000, "o3"),
    context_window(_BOTH, r"gpt-5(\.[1-3])?(-|$)", 400_000, "gpt-5.2"),
    context_window(_BOTH, r"gpt-5\.[4-9](?!-(mini|nano))|gpt-6", 1_050_000, "gpt-5.5"),
)


def _listed(model: str, listed: str) -> PriceRow:
    """Return a row of OpenAI's own page about a model."""
    return PriceRow(
        vendor="openai",
        models=(model,),
        rates=rates(listed),
        source=_PAGES + model,
        dated="2026-11",
        first_hand=True,
    )


def _tiered(model: str, listed: str) -> PriceRow:
    """Return a row of OpenAI's own page, for a model with higher prices for long requests.

    The pages say: twice the input and the cache, and 1.5 times the output, for the whole request.
    """
    standard = rates(listed)
    return PriceRow(
        vendor="openai",
        models=(model,),
        rates=standard,
        up_to=_LONG,
        above=standard.times("2", "1.5"),
        source=_PAGES + model,
        dated="2026-11",
        first_hand=True,
    )


def _quoted(models: str, listed: str, *, long: bool = False) -> PriceRow:
    """Return a row whose prices were only found elsewhere. `long`: long requests cost more, as in `_tiered`."""
    above = rates(listed).times("2", "1.5") if long else None
    return quoted("openai", models, listed, up_to=_LONG if long else None, above=above)


_PRICES = (
    _quoted("gpt-6.1-sol", "input=2 cache_read=0.1 cache_write=2.5 output=10", long=True),
    _quoted("gpt-6.1-terra", "input=1 cache_read=0.05 cache_write=1.25 output=5", long=True),
    _tiered("gpt-6-sol", "input=2 cache_read=0.2 cache_write=2.5 output=10"),
    _tiered("gpt-6-luna", "input=0.1 cache_read=0.01 cache_write=0.125 output=0.5"),
    _quoted("gpt-6-astra", "input=10 cache_read=1 cache_write=12.5 output=50", long=True),
    _quoted("gpt-6-rosalind", "input=15 cache_read=1.5 cache_write=18.75 output=75", long=True),
    _quoted("gpt-5.6-sol gpt-5.6", "input=4 cache_read=0.4 cache_write=5 output=20", long=True),
    _tiered("gpt-5.6-terra", "input=2 cache_read=0.2 cache_write=2.5 output=12"),
    _tiered("gpt-5.6-luna", "input=0.2 cache_read=0.02 cache_write=0.25 output=1.2"),
    _quoted("gpt-5.5", "input=5 cache_read=0.5 output=30", long=True),
    _quoted("gpt-5.5-pro gpt-5.4-pro", "input=30 output=180", long=True),
    _quoted("gpt-5.4", "input=2.5 cache_read=0.25 output=15", long=True),
    _quoted("gpt-5.4-mini", "input=0.75 cache_read=0.075 output=4.5"),
    _quoted("gpt-5.4-nano", "input=0.2 cache_read=0.02 output=1.25"),
    _quoted("gpt-5.2 gpt-5.2-chat gpt-5.2-codex gpt-5.3-chat gpt-5.3-codex", "input=1.75 cache_read=0.175 output=14"),
    _quoted("gpt-5.2-pro", "input=21 output=168"),
    _quoted(
        "gpt-5.1 gpt-5.1-chat gpt-5.1-codex gpt-5.1-codex-max gpt-5 gpt-5-chat gpt-5-codex",
        "input=1.25 cache_read=0.125 output=10",
    ),
    _quoted("gpt-5-pro", "input=15 output=120"),
    _quoted("gpt-5.1-codex-mini gpt-5-mini", "input=0.25 cache_read=0.025 output=2"),
    _listed("gpt-5-nano", "input=0.05 cache_read=0.005 output=0.4"),
    _quoted("gpt-4.1 o3", "input=2 cache_read=0.5 output=8"),
    _quoted("gpt-4.1-mini", "input=0.4 cache_read=0.1 output=1.6"),
    _quoted("gpt-4.1-nano", "input=0.1 cache_read=0.025 output=0.4"),
    _quoted("gpt-4o", "input=2.5 cache_read=1.25 output=10"),
    _quoted("gpt-4o-mini", "input=0.15 cache_read=0.075 output=0.6"),
    _quoted("o4-mini", "input=1.1 cache_read=0.275 output=4.4"),
    _quoted("o3-mini", "input=1.1 cache_read=0.55 output=4.4"),
    _quoted("o3-pro", "input=20 output=80"),
    _quoted("o1", "input=15 cache_read=7.5 output=60"),
)

VENDOR = Vendor(
    name="openai",
    preset=Preset(
        name="openai",
        urls={RESPONSES: "https://api.openai.com/v1", CHAT: "https://api.openai.com/v1"},
        variable="OPENAI_API_KEY",
        model="gpt-5.4-mini",
    ),
    # Where Codex sends requests that a ChatGPT subscription pays for.
    client_hosts=("chatgpt.com",),
    hosts=r"(\w+\.)?api\.openai\.com|chatgpt\.com",
    imported_names=("text-completion-openai",),
    # The access token of a ChatGPT subscription is a JSON Web Token.
    key_prefixes=("sk-proj-", "sk-svcacct-", "eyJ"),
    models=r"gpt-|chatgpt|o\d|codex|computer-use",
    families=(
        ModelFamily("gpt-*"),
        ModelFamily("chatgpt-*"),
        ModelFamily("codex-*"),
        ModelFamily("o[0-9]*", r"o\d+(-.*)?"),
    ),
    is_complete=True,
    profiles=(*_REASONS, *_EFFORTS, *_TOOLS, *_SAMPLING, *_OUTPUT, *_CONTENT, *_CACHING, *_WINDOWS),
    prices=_PRICES,
)

AZURE = Vendor(
    name="azure",
    preset=Preset(
        name="azure",
        urls=dict.fromkeys((RESPONSES, CHAT), "https://{resource}.openai.azure.com/openai/v1"),
        variable="AZURE_OPENAI_API_KEY",
        model="",
        parameters=(
            Parameter(
                name="resource",
                what="the name of the Azure resource, as in https://NAME.openai.azure.com",
                variables=("AZURE_RESOURCE_NAME",),
            ),
        ),
    ),
    other_names=("aoai",),
    hosts=r".*\.(openai\.azure|services\.ai\.azure|cognitiveservices\.azure)\.com",
)
