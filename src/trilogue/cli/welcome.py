"""The text that `trilogue serve` prints first: a request to try per protocol, and settings to paste into clients."""

from __future__ import annotations

from ipaddress import ip_address
from pathlib import Path

from trilogue.config import Config


def welcome(config: Config, port: int, file: Path | None = None) -> str:
    """Return the text for a gateway on this port. `file` is its configuration file, if it has one."""
    url = f"http://{_reachable(config.server.host)}:{port}"
    key = "$TRILOGUE_KEY" if config.keys else "none-needed"
    auth = f' -H "authorization: Bearer {key}"' if config.keys else ""
    providers = ", ".join(
        f"{name} ({' and '.join(one.short for one in provider.protocols)})"
        for name, provider in config.providers.items()
    )
    model = "demo" if any(provider.is_demo for provider in config.providers.values()) else "MODEL"
    return "\n".join(
        [
            f"Trilogue listens on {url} and serves {providers}.",
            *([f"Configuration: {file}"] if file else []),
            "",
            "Try it, with one request per protocol:",
            f"  curl -N {url}/v1/chat/completions -H 'content-type: application/json'{auth} \\",
            f'    -d \'{{"model":"{model}","stream":true,"messages":[{{"role":"user","content":"Hello"}}]}}\'',
            f"  curl -N {url}/v1/messages -H 'content-type: application/json'{auth} \\",
            f'    -d \'{{"model":"{model}","max_tokens":200,"stream":true,'
            '"messages":[{"role":"user","content":"Think, then answer"}]}\'',
            f"  curl -N {url}/v1/responses -H 'content-type: application/json'{auth} \\",
            f'    -d \'{{"model":"{model}","stream":true,"input":"Search for something"}}\'',
            "",
            "Claude Code:",
            f"  ANTHROPIC_BASE_URL={url} ANTHROPIC_AUTH_TOKEN={key} ANTHROPIC_MODEL={model} claude",
            "Codex (~/.codex/config.toml):",
            f'  model = "{model}"',
            '  model_provider = "trilogue"',
            "  [model_providers.trilogue]",
            f'  name = "Trilogue"\n  base_url = "{url}/v1"\n  wire_api = "responses"'
            + ('\n  env_key = "TRILOGUE_KEY"' if config.keys else ""),
            "OpenAI SDK:",
            f'  OpenAI(base_url="{url}/v1", api_key="{key}")',
            "Anthropic SDK:",
            f'  Anthropic(base_url="{url}", api_key="{key}")',
            "",
            "Stop with Ctrl-C.",
        ]
    )


def _reachable(host: str) -> str:
    """Return the host to connect to, for the address that the server is bound to."""
    try:
        if ip_address(host).is_unspecified:
            return "localhost"
    except ValueError:
        return host
    return f"[{host}]" if ":" in host else host
