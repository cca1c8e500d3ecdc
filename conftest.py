"""Settings of the project's own tests."""

from __future__ import annotations

from pathlib import Path

import pytest

# Where this checkout is installed, other projects' runs collect its contracts and so read this
# file, and pytest refuses plugins from a conftest that is not at the top.
IS_OURS = Path.cwd().is_relative_to(Path(__file__).parent)
if IS_OURS:
    pytest_plugins = ["pytester"]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the switch of the nightly profile."""
    if IS_OURS:
        parser.addoption("--nightly", action="store_true", help="run the tests marked nightly too")


def pytest_configure(config: pytest.Config) -> None:
    """Declare the markers of this project's tests."""
    if IS_OURS:
        _set_profile(nightly=config.getoption("--nightly"))
        config.addinivalue_line("markers", "nightly: too slow for every change; needs --nightly")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave the nightly tests out, visibly, unless they are asked for."""
    if not IS_OURS or config.getoption("--nightly"):
        return
    for item in items:
        if item.get_closest_marker("nightly"):
            item.add_marker(pytest.mark.skip(reason="nightly: run with --nightly"))


def _set_profile(nightly: bool) -> None:
    """Have Hypothesis draw the same inputs for every change, and more of them, others, at night."""
    from hypothesis import HealthCheck, settings

    slow = [HealthCheck.too_slow, HealthCheck.data_too_large]
    common = settings(deadline=None, database=None, suppress_health_check=slow, print_blob=True)
    settings.register_profile("gate", common, derandomize=True, max_examples=100)
    settings.register_profile("nightly", common, max_examples=2000)
    settings.load_profile("nightly" if nightly else "gate")
