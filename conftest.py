"""Settings of the project's own tests."""

from __future__ import annotations

from pathlib import Path

# Where this checkout is installed, other projects' runs collect its contracts and so read this
# file, and pytest refuses plugins from a conftest that is not at the top.
if Path.cwd().is_relative_to(Path(__file__).parent):
    pytest_plugins = ["pytester"]
