"""A fair test of exploration bonuses on the Arcade Learning Environment."""

from importlib.metadata import version

__version__ = version("offpiste")
__all__ = ["__version__"]
