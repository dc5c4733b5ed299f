from tests.cli.conftest import _wide_and_elsewhere

__all__ = ["_wide_and_elsewhere"]
