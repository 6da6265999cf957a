"""Providers that need no address: where each vendor serves which protocol, the variable that holds its key, and quirks.

Data only. A provider of a configuration is completed from the preset of its name (`config.presets`),
`app.embed.sdk` finds an upstream by it, and `config.importers` recognises providers of other gateways. Addresses are
base URLs from the published documentation of the vendors, as of `SEEN`; they were not called.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from trilogue.model import Protocol

CHAT, MESSAGES, RESPONSES = (Protocol.parse(name) for name in ("chat", "messages", "responses"))

SEEN = "2026-11"
"""when the addresses were last compared with the vendors' documentation"""

_PLACE = re.compile(r"\{(\w+)\}")


class Parameter(Struct, frozen=True, kw_only=True):
    """A part of an address that each user has to set.

    `variables`: environment variables that are used if it is not set, the first one that is there. `fallback`: its
    value without them; empty if there is none.
    """

    name: str
    what: str
    variables: tuple[str, ...] = ()
    fallback: str = ""

    def value(self, environ: Mapping[str, str]) -> str:
        """Return the value for a user who has not set it; "" if there is none."""
        found = (environ.get(variable, "").strip() for variable in self.variables)
        return next(filter(None, found), self.fallback)


class Preset(Struct, frozen=True, kw_only=True):
    """A provider by name.

    `urls`: base URL by protocol, the preferred protocol first, with `{…}` for parameters. `variable`: the environment
    variable that holds the key. `command`: prints the key, if there is no variable for it.
    """

    name: str
    urls: dict[Protocol, str]
    model: str
    """a model that it serves, for examples; empty if that depends on the user"""
    variable: str = ""
    command: str = ""
    parameters: tuple[Parameter, ...] = ()
    bearer: bool = False
    """the key is a bearer token in Messages too"""
    vendor: str = ""
    """whose rows of the model table apply, where neither address nor name shows it"""
    settings: dict[str, Any] = {}
    """further settings of the provider, in the form of the configuration file"""
    port: int = 0
    """where it listens on this machine; 0 for vendors. Such a server needs a key only if its user has set one"""
    owned_by: str = ""
    """what such a server says about its models, by which it is recognised on another port"""
    general_variable: bool = False
    """the variable is usually set for something else, so that it alone does not mean that the user wants this"""

    @property
    def protocol(self) -> Protocol:
        """The protocol to prefer if a request can be translated to several."""
        return next(iter(self.urls))

    @property
    def one_address(self) -> bool:
        """Whether all its protocols have the same base URL."""
        return len(set(self.urls.values())) == 1

    def is_found(self, environ: Mapping[str, str]) -> bool:
        """Return whether the environment has all that it needs, so that it can be offered without a configuration."""
        complete = all(parameter.value(environ) for parameter in self.parameters)
        wanted = bool(self.variable) and not self.port and not self.general_variable
        return wanted and complete and bool(environ.get(self.variable, "").strip())

    @property
    def needs(self) -> str:
        """What a user has to do before models of this provider are served."""
        entry = f"add {self.name} to providers in a configuration file"
        if self.port:
            return f"{entry}; without such a file, start its server on port {self.port}"
        if not self.variable or self.general_variable:
            return entry
        variables = [self.variable, *(one.variables[0] for one in self.parameters if not one.fallback)]
        return f"set {' and '.join(variables)}; if the configuration file has providers, also add {self.name} to them"

    def addresses(self, values: Mapping[str, str]) -> dict[Protocol, str]:
        """Return its base URLs with these values of its parameters."""
        return {protocol: _filled(url, values) for protocol, url in self.urls.items()}


def _filled(url: str, values: Mapping[str, str]) -> str:
    # Google has no region in the name of the host of its global endpoint.
    return _PLACE.sub(lambda found: values[found[1]], url).replace("//global-", "//")


def _chat(name: str, url: str, variable: str, model: str) -> Preset:
    return Preset(name=name, urls={CHAT: url}, variable=variable, model=model)


_OWNERS = {
    "ollama": "library",
    "lmstudio": "organization_owner",
    "llamacpp": "llamacpp",
    "vllm": "vllm",
    "sglang": "sglang",
}


def _local(name: str, port: int, variable: str, *protocols: Protocol, **more: Any) -> Preset:
    return Preset(
        name=name,
        urls={one: f"http://127.0.0.1:{port}" for one in protocols},
        model="",
        variable=variable,
        port=port,
        bearer=True,
        # A model may have to be loaded before it responds.
        settings={"timeouts": {"first_byte": 900, "first_event": 900}, **more},
        vendor="ollama" if name == "ollama" else "none",
        owned_by=_OWNERS[name],
    )


_STATELESS = {"profile": {"keeps_state": False}}
"""for servers of the Responses protocol that keep nothing: the gateway keeps the responses"""

_AWS_REGION = Parameter(
    name="region", what="the AWS region, such as us-east-1", variables=("AWS_REGION", "AWS_DEFAULT_REGION")
)

_ALL = (
    Preset(
        name="openai",
        urls={RESPONSES: "https://api.openai.com/v1", CHAT: "https://api.openai.com/v1"},
        variable="OPENAI_API_KEY",
        model="gpt-5.4-mini",
    ),
    Preset(
        name="anthropic",
        urls={MESSAGES: "https://api.anthropic.com"},
        variable="ANTHROPIC_API_KEY",
        model="claude-sonnet-5",
    ),
    _chat(
        "gemini",
        "https://generativelanguage.googleapis.com/v1beta/openai",
        "GEMINI_API_KEY",
        "gemini-2.5-flash",
    ),
    Preset(
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
    Preset(
        name="bedrock",
        urls=dict.fromkeys((CHAT, RESPONSES), "https://bedrock-runtime.{region}.amazonaws.com/openai/v1"),
        variable="AWS_BEARER_TOKEN_BEDROCK",
        model="openai.gpt-oss-120b-1:0",
        parameters=(_AWS_REGION,),
        vendor="none",
        settings=_STATELESS,
    ),
    Preset(
        name="bedrock-claude",
        urls={MESSAGES: "https://bedrock-mantle.{region}.api.aws/anthropic"},
        variable="AWS_BEARER_TOKEN_BEDROCK",
        model="anthropic.claude-sonnet-5",
        parameters=(_AWS_REGION,),
        settings={"profile": {"keeps_state": False, "version": "2023-06-01"}},
    ),
    Preset(
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
    Preset(
        name="deepseek",
        urls={CHAT: "https://api.deepseek.com", MESSAGES: "https://api.deepseek.com/anthropic"},
        variable="DEEPSEEK_API_KEY",
        model="deepseek-v4-flash",
    ),
    Preset(
        name="openrouter",
        urls={CHAT: "https://openrouter.ai/api/v1", MESSAGES: "https://openrouter.ai/api"},
        variable="OPENROUTER_API_KEY",
        model="openai/gpt-5",
        bearer=True,
        settings=_STATELESS,
    ),
    _chat("groq", "https://api.groq.com/openai/v1", "GROQ_API_KEY", "llama-3.3-70b-versatile"),
    Preset(
        name="xai",
        urls=dict.fromkeys((CHAT, RESPONSES), "https://api.x.ai/v1"),
        variable="XAI_API_KEY",
        model="grok-4.3",
    ),
    _chat("mistral", "https://api.mistral.ai/v1", "MISTRAL_API_KEY", "mistral-small-latest"),
    Preset(
        name="moonshot",
        urls={CHAT: "https://api.moonshot.ai/v1", MESSAGES: "https://api.moonshot.ai/anthropic"},
        variable="MOONSHOT_API_KEY",
        model="kimi-k2.5",
        bearer=True,
    ),
    Preset(
        name="qwen",
        urls={
            CHAT: "https://dashscope-intl.aliyuncs.com/compatible-mode/v1",
            MESSAGES: "https://dashscope-intl.aliyuncs.com/apps/anthropic",
        },
        variable="DASHSCOPE_API_KEY",
        model="qwen-plus",
    ),
    Preset(
        name="zai",
        urls={CHAT: "https://api.z.ai/api/paas/v4", MESSAGES: "https://api.z.ai/api/anthropic"},
        variable="ZAI_API_KEY",
        model="glm-5",
        bearer=True,
    ),
    Preset(
        name="minimax",
        urls={CHAT: "https://api.minimax.io/v1", MESSAGES: "https://api.minimax.io/anthropic"},
        variable="MINIMAX_API_KEY",
        model="MiniMax-M2",
        bearer=True,
    ),
    _chat("together", "https://api.together.xyz/v1", "TOGETHER_API_KEY", "openai/gpt-oss-120b"),
    Preset(
        name="fireworks",
        urls={CHAT: "https://api.fireworks.ai/inference/v1", MESSAGES: "https://api.fireworks.ai/inference"},
        variable="FIREWORKS_API_KEY",
        model="accounts/fireworks/models/kimi-k2p5",
        bearer=True,
    ),
    _chat("cerebras", "https://api.cerebras.ai/v1", "CEREBRAS_API_KEY", "gpt-oss-120b"),
    _chat("perplexity", "https://api.perplexity.ai", "PERPLEXITY_API_KEY", "sonar"),
    Preset(
        name="github",
        urls={CHAT: "https://models.github.ai/inference"},
        variable="GITHUB_TOKEN",
        model="openai/gpt-4.1",
        general_variable=True,
    ),
    _chat("nvidia", "https://integrate.api.nvidia.com/v1", "NVIDIA_API_KEY", "openai/gpt-oss-120b"),
    _chat("deepinfra", "https://api.deepinfra.com/v1/openai", "DEEPINFRA_API_KEY", "openai/gpt-oss-120b"),
    _chat("sambanova", "https://api.sambanova.ai/v1", "SAMBANOVA_API_KEY", "gpt-oss-120b"),
    _chat("hyperbolic", "https://api.hyperbolic.xyz/v1", "HYPERBOLIC_API_KEY", "openai/gpt-oss-120b"),
    _local("ollama", 11434, "", CHAT, MESSAGES, RESPONSES, **_STATELESS),
    _local("lmstudio", 1234, "LM_API_TOKEN", CHAT, MESSAGES, RESPONSES),
    _local("llamacpp", 8080, "LLAMA_API_KEY", CHAT, MESSAGES),
    _local("vllm", 8000, "VLLM_API_KEY", CHAT, MESSAGES, RESPONSES, **_STATELESS),
    _local("sglang", 30000, "SGLANG_API_KEY", CHAT, MESSAGES),
)

PRESETS: dict[str, Preset] = {preset.name: preset for preset in _ALL}
"""all presets by name"""
