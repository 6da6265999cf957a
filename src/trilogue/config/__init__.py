"""The configuration file: its types, reading it, checking it, and the secrets that it names.

Reads a YAML file and the environment. Returns a `Config` in which every secret is resolved and every default is filled
in, or raises a `ConfigError` that lists all problems.
"""

from trilogue.config.admin import AdminSettings, Role, SignOnSettings
from trilogue.config.captures import CaptureSettings
from trilogue.config.cluster import ClusterSettings
from trilogue.config.dotenv import with_dotenv
from trilogue.config.folders import state_directory, state_file
from trilogue.config.load import environment_config, find, load, parse
from trilogue.config.network import endpoint, exposure_problem, is_azure, is_loopback, reason_not_to_start
from trilogue.config.problems import Problem
from trilogue.config.providers import AccountSettings, ProviderSettings
from trilogue.config.secret import Secret
from trilogue.config.timeouts import ProviderTimeouts
from trilogue.config.tracing import TracingSettings
from trilogue.config.types import (
    ClientKeySettings,
    Config,
    Log,
    Server,
    StateSettings,
)
from trilogue.config.validate import warnings
from trilogue.config.vault import Vault, VaultError
from trilogue.errors import ConfigError

__all__ = [
    "AccountSettings",
    "AdminSettings",
    "CaptureSettings",
    "ClientKeySettings",
    "ClusterSettings",
    "Config",
    "ConfigError",
    "Log",
    "Problem",
    "ProviderSettings",
    "ProviderTimeouts",
    "Role",
    "Secret",
    "Server",
    "SignOnSettings",
    "StateSettings",
    "TracingSettings",
    "Vault",
    "VaultError",
    "endpoint",
    "environment_config",
    "exposure_problem",
    "find",
    "is_azure",
    "is_loopback",
    "load",
    "parse",
    "reason_not_to_start",
    "state_directory",
    "state_file",
    "warnings",
    "with_dotenv",
]
