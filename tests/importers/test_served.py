"""A LiteLLM file with 30 models, imported and served: every public name reaches the model that it had, with its key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.gateway.running import CLIENT_KEY, running
from tests.importers.test_importers import FILES, VARIABLE, dropped
from tests.scripted import thread
from tests.scripted.http import json_answer
from tests.scripted.server import ScriptedUpstream, key_of
from trilogue.config.importers.run import import_file


def test_every_model_of_a_litellm_file_is_served(tmp_path: Path, subtests: pytest.Subtests) -> None:
    data = (FILES / "litellm.yaml").read_bytes()
    result = import_file(data, "litellm")
    environ = {name: f"key-canary-{name.lower()}" for name in VARIABLE.findall(result.text)}
    environ["LITELLM_MASTER_KEY"] = CLIENT_KEY
    config = yaml.safe_load(result.text)
    models = public_models(data, result.text)
    assert len(models) >= 26
    scenarios = {model: "text" for model, _ in models.values()}
    with thread.running(ScriptedUpstream(["", *environ.values()], scenarios)) as up:
        for provider in config["providers"].values():
            provider["base_url"] = f"{up.url}/v1"
        config["state"] = "none"
        with running(tmp_path, yaml.safe_dump(config), up.url, environ) as gateway:
            for name, (model, keys) in models.items():
                with subtests.test(name):
                    if name == "embeddings":
                        up.say(json_answer(200, [], {"data": [], "model": model, "object": "list"}))
                        gateway.openai.embeddings.create(model=name, input="Hi", encoding_format="float")
                    else:
                        ask: Any = [{"role": "user", "content": "Hi"}]
                        gateway.openai.chat.completions.create(model=name, messages=ask)
                    asked = up.last()
                    assert asked.json["model"] == model
                    assert key_of(asked) in {environ.get(key.removeprefix("env:"), "") for key in keys}


def public_models(data: bytes, text: str) -> dict[str, tuple[str, list[str]]]:
    """Return for each name in the file, except patterns and what was not carried over, its model and its keys."""
    config = yaml.safe_load(text)
    targets = {name: target.partition("/") for name, target in config["aliases"].items()}
    for route in config["routes"]:
        first = route["targets"][0]
        targets[route["match"]] = (first["provider"], "/", first["model"])
    lost = dropped(import_file(data, "litellm"))
    entries = enumerate(yaml.safe_load(data)["model_list"])
    names = [entry["model_name"] for number, entry in entries if f"model_list[{number}]" not in lost]
    found = {}
    for name in [name for name in names if "*" not in name]:
        provider, _, model = targets[name]
        accounts = config["providers"][provider].get("accounts", [])
        found[name] = (model, [account["key"] for account in accounts] or [""])
    return found
