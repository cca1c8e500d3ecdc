"""Where the catalogue and the fixtures lie."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def contracts_dir() -> Path:
    """Return the directory of the built-in contract files."""
    return _root() / "contracts"


def fixtures_dir() -> Path:
    """Return the directory of the built-in subjects, cases and waivers."""
    return _root() / "fixtures"


def _root() -> Path:
    """Return the checkout, where the package stands in one, else the data of the wheel."""
    checkout = _PACKAGE.parent.parent
    in_checkout = (checkout / "pyproject.toml").is_file() and (checkout / "contracts").is_dir()
    return checkout if in_checkout else _PACKAGE / "_data"
