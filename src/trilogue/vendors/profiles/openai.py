"""What OpenAI's models accept, at OpenAI and at Azure, in Chat Completions and in Responses."""

from __future__ import annotations

from trilogue.vendors.profiles.profile import ProfileRow, levels, tiers_but

_BOTH = "openai azure"
_NO_REASONING = r"gpt-4|gpt-3|chatgpt-4|gpt-5-chat"
_REASONING = r"o[1-9]|gpt-5(?!(\.\d+)?-chat)|gpt-[6-9]|codex"
# Models whose reasoning cannot be switched off. Of gpt-5.1 and later, only the codex and pro versions are among them.
_ALWAYS = r"o[1-9]|gpt-5(?!\.)(?!-chat)|gpt-5\.\d+-(codex|pro)|codex|gpt-[6-9]"
_ALL = ""


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
        models=_ALL,
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
        models=_ALL,
        takes={"least_output": 16},
        what="max_output_tokens must be at least 16",
        sure="documented",
        sources=("sdk: litellm openai/responses/transformation.py",),
        example="gpt-4o",
    ),
    ProfileRow(
        vendors=_BOTH,
        protocols="chat responses",
        models=_ALL,
        takes={"json_word": True},
        what="json_object requires the word json in the messages or the input",
        sure="several",
        sources=("mem0ai/mem0#3559", "browserbase/stagehand#1204", "miracodeai/mira#267"),
        example="gpt-4o",
    ),
    ProfileRow(
        vendors=_BOTH,
        protocols="chat responses",
        models=_ALL,
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
        models=_ALL,
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
        models=_ALL,
        takes={"top_k": False},
        what="unknown fields are an error",
        sure="documented",
        sources=("run-llama/llama_index#17731", "sdk: openai CompletionCreateParams"),
        example="gpt-4o",
    ),
    ProfileRow(
        vendors=_BOTH,
        protocols="responses",
        models=_ALL,
        takes={"raw_reasoning": False},
        what="reasoning that is sent back has only summary and encrypted_content, no content",
        sure="several",
        sources=("musistudio/claude-code-router#1783",),
        example="gpt-5",
    ),
)

ROWS = (*_REASONS, *_EFFORTS, *_TOOLS, *_SAMPLING, *_OUTPUT, *_CONTENT, *_CACHING)
