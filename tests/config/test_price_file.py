"""The file with prices: who its prices are for, and what is said about mistakes in it."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from trilogue.config.config import Config
from trilogue.config.load import load
from trilogue.errors import ConfigError
from trilogue.model import Usage
from trilogue.routing.pool.account import AccountRequest
from trilogue.upstreams.build import pools_of
from trilogue.vendors.price import Price

CONFIG = """\
providers:
  mine: {protocol: chat, base_url: "http://127.0.0.1:1", vendor: openai, prices: {own: {input: 1, output: 1}}}
  openai: {protocol: chat, base_url: "http://127.0.0.1:1"}
price_file: PATH
"""
MILLION = 1_000_000


def loaded(folder: Path, prices: str, path: str = "prices.yaml") -> Config:
    (folder / "prices.yaml").write_text(prices)
    (folder / "trilogue.yaml").write_text(CONFIG.replace("PATH", path))
    return load(folder / "trilogue.yaml", {})


def dollars(config: Config, provider: str, model: str) -> float | None:
    found = config.providers[provider].price_book().cost(Usage(fresh=MILLION), model, 0)
    return None if found is None else float(found.amount)


def test_prices_by_provider_and_by_vendor(tmp_path: Path) -> None:
    """Those of the provider itself go first, then those for its name, then those for its vendor, then the table."""
    prices = """
mine: {own: {input: 5, output: 5}, first: {input: 2, output: 2}}
openai: {first: {input: 3, output: 3}, second: {input: 4, output: 4}}
"""
    config = loaded(tmp_path, prices, str(tmp_path / "prices.yaml"))
    found = {model: dollars(config, "mine", model) for model in ("own", "first", "second", "gpt-4o", "none")}
    assert found == {"own": 1, "first": 2, "second": 4, "gpt-4o": 2.5, "none": None}
    assert dollars(config, "openai", "first") == 3
    assert config.providers["openai"].prices["second"] == Price(input=4, output=4)


def test_an_empty_file_has_no_prices(tmp_path: Path) -> None:
    assert dollars(loaded(tmp_path, "# later\n"), "mine", "own") == 1


@pytest.mark.parametrize(
    ("prices", "path", "words"),
    [
        ("", "absent.yaml", "price_file: cannot read the file: No such file or directory (line 4)"),
        ("openai: {m: {input: -1}}", "prices.yaml", "openai.m.input in line 1 of the file: must be a number from 0"),
        ("openai: {m: {inptu: 1}}", "prices.yaml", 'openai.m in line 1 of the file: unknown key "inptu"'),
        ("openai: 5", "prices.yaml", "openai in line 1 of the file: must be settings (name: value)"),
        ("- 1", "prices.yaml", "in line 1 of the file: must be settings (name: value)"),
        ("a: {b", "prices.yaml", "in the file, not valid YAML"),
    ],
)
def test_mistakes(tmp_path: Path, prices: str, path: str, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        loaded(tmp_path, prices, path)
    assert words in str(caught.value)


def test_balances_use_the_prices_of_the_vendor(tmp_path: Path) -> None:
    """A user who sets a balance need not state prices that are known."""
    (tmp_path / "trilogue.yaml").write_text(
        "providers: {openai: {protocol: chat, base_url: 'http://127.0.0.1:1', accounts: [{key: abcdefgh, balance: 5}]}}"
    )
    config = load(tmp_path / "trilogue.yaml", {})
    pool = pools_of(config, Random(1), config.server.workers).pools["openai"]
    choice = pool.choose(0.0, AccountRequest(model="gpt-4o"))
    assert choice is not None
    pool.finished(choice, 0.0, Usage(fresh=MILLION))
    assert pool.accounts[0].balance == 2.5
