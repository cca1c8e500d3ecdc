"""Contract tests for the place where an EAGLE-3 draft meets a serving engine.

This module is also the pytest plugin. pytest imports it wherever the package is installed, so it
imports nothing until the contracts are asked for: by ``-p eagle3_contracts`` or by an option that
begins with ``--eagle3``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

_NAME = "eagle3_contracts"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options ``--eagle3-*``."""
    from eagle3_contracts.options import SETTINGS

    group = parser.getgroup(_NAME, "contracts of EAGLE-3 drafts (eagle3_contracts)")
    for setting in SETTINGS:
        group.addoption(f"--eagle3-{setting.name}", **setting.argument())
    text = "fuzz the subjects as well, for that time in all: 60s, 5m, 2h"
    group.addoption("--eagle3-fuzz", metavar="TIME", help=text)
    text = "seed of fuzzing; default: 0, so that every run draws the same"
    group.addoption("--eagle3-fuzz-seed", type=int, metavar="N", help=text)


def pytest_configure(config: pytest.Config) -> None:
    """Start the plugin proper where the contracts are asked for."""
    if _is_asked(config):
        from eagle3_contracts.plugin import start

        start(config)


def _is_asked(config: pytest.Config) -> bool:
    options = vars(config.option)
    is_named = _NAME in (options.get("plugins") or ())
    return is_named or any(
        value is not None for name, value in options.items() if name.startswith("eagle3_")
    )
