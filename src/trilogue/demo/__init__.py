"""The built-in provider: a scripted model in this process, so that everything can be tried without a key."""

from trilogue.demo.model import PACE, DemoModel
from trilogue.demo.scripts import MODELS
from trilogue.demo.transport import DemoTransport

__all__ = ["MODELS", "PACE", "DemoModel", "DemoTransport"]
