"""The file with prices that a configuration names: by provider or vendor, and by model or pattern."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from msgspec import inspect
from msgspec.structs import replace

from trilogue.config.config import Config
from trilogue.config.reader import Reader
from trilogue.config.yaml_file import MAX_BYTES, read_document
from trilogue.errors import ConfigError
from trilogue.upstreams.settings import ProviderSettings
from trilogue.vendors.price import Price

PricesByName = dict[str, dict[str, Price]]
SETTING = "price_file"


def with_price_file(config: Config, folder: Path) -> tuple[Config, list[tuple[str, str]]]:
    """Return a configuration with the prices of its file, and what is wrong with the file.

    Relative paths start at `folder`. What a provider states itself has precedence.
    """
    if not config.price_file:
        return config, []
    try:
        listed, problems = _read(folder / Path(config.price_file).expanduser())
    except (OSError, ValueError, RuntimeError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or "not a path"
        return config, [(SETTING, f"cannot read the file: {reason}")]
    except ConfigError as error:
        return config, [(SETTING, f"in the file, {problem}") for problem in error.problems]
    providers = {name: _with_prices(name, one, listed) for name, one in config.providers.items()}
    return replace(config, providers=providers), problems


def _with_prices(name: str, provider: ProviderSettings, listed: PricesByName) -> ProviderSettings:
    found: dict[str, Price] = {}
    for prices in (provider.prices, listed.get(name, {}), listed.get(provider.price_vendor, {})):
        found |= {model: price for model, price in prices.items() if model not in found}
    return replace(provider, prices=found)


def _read(path: Path) -> tuple[PricesByName, list[tuple[str, str]]]:
    with path.open("rb") as file:
        document = read_document(file.read(MAX_BYTES + 1))
    reader = Reader({}, path.parent)
    listed = reader.read(_kind(), {} if document.data is None else document.data, "")
    if reader.problems:
        lines = ((path, text, document.line(path)) for path, text in reader.problems)
        return {}, [(SETTING, f"{_placed(path, line)}: {text}") for path, text, line in lines]
    return listed, []


def _placed(path: str, line: int | None) -> str:
    return f"{path} in line {line} of the file".lstrip() if line else "in the file"


@cache
def _kind() -> inspect.Type:
    return inspect.type_info(PricesByName)
