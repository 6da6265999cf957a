"""The configuration: its types, how it is read, and what is wrong with it.

Comes in: a YAML file and the environment. Goes out: a `Config` in which every secret is resolved and every default
filled in, or a `ConfigError` that lists all problems.
"""

from trilogue.config.folders import state_directory
from trilogue.config.load import find, load, parse, zero_config
from trilogue.config.network import endpoint, is_azure, is_loopback, refuse_exposure, refuse_start
from trilogue.config.problems import ConfigError, Problem
from trilogue.config.secret import Secret
from trilogue.config.types import (
    AccountSettings,
    AdminSettings,
    ClientKeySettings,
    Config,
    Log,
    ProviderSettings,
    ProviderTimeouts,
    Server,
)
from trilogue.config.validate import warnings
from trilogue.config.vault import Vault, VaultError

__all__ = [
    "AccountSettings",
    "AdminSettings",
    "ClientKeySettings",
    "Config",
    "ConfigError",
    "Log",
    "Problem",
    "ProviderSettings",
    "ProviderTimeouts",
    "Secret",
    "Server",
    "Vault",
    "VaultError",
    "endpoint",
    "find",
    "is_azure",
    "is_loopback",
    "load",
    "parse",
    "refuse_exposure",
    "refuse_start",
    "state_directory",
    "warnings",
    "zero_config",
]
