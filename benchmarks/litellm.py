"""LiteLLM (PyPI, pinned), in its own virtual environment, one for each interpreter.

The models of `MODELS` are registered with prices, as real ones are. For a model that it does not know, LiteLLM logs a
traceback per request, and it asks a Responses upstream for a response without streaming and plays that back as a
stream. Other names match its wildcards and have both problems. It does not start without a master key, so each run
creates one, and the routes carry it.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from pathlib import Path

from benchmarks.install import environment, environment_python
from benchmarks.interpreter import Interpreter
from benchmarks.peer import Peer, Route, Started, clean_environment, fresh, launch, responds
from benchmarks.processes import free_port
from benchmarks.traffic import MODELS, PATHS
from trilogue.model import Protocol

# 1.82.7 and 1.82.8 were malicious; later versions require a certifi that is not available everywhere yet.
VERSION = "1.106.2"
KEY = f"sk-{secrets.token_hex(32)}"

# The provider of each upstream protocol, the end of its base URL, and more settings. The Chat upstream is not `openai`:
# with `openai`, plain responses to Messages clients are empty ("content":[]), and the mode of the Responses upstream
# would apply to both, because modes are set by provider and model. It costs the same within the noise of a measurement.
# `use_chat_completions_api` keeps Responses clients on Chat.
UPSTREAMS: Mapping[Protocol, tuple[str, str, Mapping[str, object]]] = {
    Protocol.CHAT: ("hosted_vllm", "/v1", {"use_chat_completions_api": True}),
    Protocol.MESSAGES: ("anthropic", "", {}),
    Protocol.RESPONSES: ("openai/responses", "/v1", {}),
}


def deployment(model: str, protocol: Protocol, upstream: str) -> dict[str, object]:
    """Return one row of its model list."""
    provider, suffix, more = UPSTREAMS[protocol]
    row: dict[str, object] = {
        "model_name": f"{protocol.short}/{model}",
        "litellm_params": {
            "model": f"{provider}/{model}",
            "api_base": upstream + suffix,
            "api_key": "sk-upstream",
            **more,
        },
    }
    if model != "*":
        row["model_info"] = {
            "input_cost_per_token": 1e-6,
            "output_cost_per_token": 2e-6,
            "mode": "responses" if protocol is Protocol.RESPONSES else "chat",
            "supports_native_streaming": True,
            "max_input_tokens": 1_000_000,
            "max_output_tokens": 100_000,
        }
    return row


def config(upstream: str) -> dict[str, object]:
    """Return a configuration without callbacks, retries, cache or database, as on its own benchmark page."""
    return {
        "model_list": [deployment(model, protocol, upstream) for model in (*MODELS, "*") for protocol in UPSTREAMS],
        "litellm_settings": {"callbacks": [], "num_retries": 0, "request_timeout": 600, "telemetry": False},
        "general_settings": {"master_key": KEY, "disable_spend_logs": True},
    }


def home(folder: Path, interpreter: Interpreter) -> Path:
    """Return the folder in which it is installed for this interpreter."""
    return folder.resolve() / f"litellm-{VERSION}-{interpreter.key}"


def prepare(folder: Path, interpreter: Interpreter) -> str | None:
    """Install it into its own virtual environment, about 750 MB. Returns None, or why that failed."""
    wanted = [f"litellm[proxy]=={VERSION}"]
    return environment(interpreter.program, home(folder, interpreter), wanted, f"LiteLLM {VERSION}")


def start(folder: Path, interpreter: Interpreter, upstream: str) -> Started:
    """Start one uvicorn worker with uvloop, as its production guide recommends."""
    program = environment_python(home(folder, interpreter)).with_name("litellm")
    run, port = fresh(folder, "litellm"), free_port()
    (run / "config.yaml").write_text(json.dumps(config(upstream), indent=1), "utf-8")
    env = clean_environment(
        run,
        LITELLM_MODE="PRODUCTION",  # no .env file
        LITELLM_LOG="ERROR",  # the access log is off with it
        LITELLM_LOCAL_MODEL_COST_MAP="True",  # keeps it from downloading prices at the start
        LITELLM_TELEMETRY="False",
        DISABLE_ADMIN_UI="True",
        NO_DOCS="True",
        NO_REDOC="True",
    )
    command = [
        str(program),
        "--config",
        "config.yaml",
        "--host",
        "127.0.0.1",
        "--port",
        str(port),
        "--num_workers",
        "1",
    ]
    return launch(command, run, port, responds(ROUTES[Protocol.CHAT, Protocol.CHAT], upstream), env)


ROUTES = {
    (client, upstream): Route(PATHS[client], {"authorization": f"Bearer {KEY}"}, f"{upstream.short}/{{model}}")
    for client in PATHS
    for upstream in PATHS
}


def litellm(interpreter: Interpreter) -> Peer:
    """Return LiteLLM under this interpreter."""
    return Peer(
        "LiteLLM",
        lambda: VERSION,
        lambda folder: prepare(folder, interpreter),
        lambda folder, upstream: start(folder, interpreter, upstream),
        ROUTES,
    )
