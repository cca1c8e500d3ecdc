"""Options: one table for the command line, for pytest, and for ``[tool.eagle3_contracts]``.

Imported by every run of pytest in which the package is installed, so it imports next to nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eagle3_contracts.errors import OptionError, Problem, did_you_mean, raise_if_any

if TYPE_CHECKING:
    from eagle3_contracts.facts import Tier

TIERS = ("static", "load", "model", "engine", "live")
DEFAULT_TIERS = TIERS[:3]
"""Names of the tiers judged when none is chosen."""
DEVICES = ("cpu", "cuda")
FORMATS = ("terminal", "json", "junit")
"""Names of the report formats; each is a module of :mod:`eagle3_contracts.report`."""
TABLE = "tool.eagle3_contracts"

_SUBJECT_GROUP = ("subject", "target", "draft", "launch")
_PATHS = ("subject", "target", "draft", "contracts", "waivers")


@dataclass(frozen=True, slots=True)
class Setting:
    """One option, whatever the surface: ``--tier``, ``--eagle3-tier`` or the key ``tier``."""

    name: str
    metavar: str
    doc: str
    is_list: bool = False
    """It may be given more than once."""
    has_commas: bool = False
    """One value may hold several, separated by commas."""
    is_switch: bool = False
    """It takes no value."""

    def argument(self) -> dict[str, Any]:
        """Return how argparse, and so pytest, is told of it."""
        if self.is_switch:
            return {"action": "store_true", "default": None, "help": self.doc}
        action = "append" if self.is_list else "store"
        return {"action": action, "metavar": self.metavar, "help": self.doc}


SETTINGS = (
    Setting("target", "PATH", "target of the subject: a directory or a hub id"),
    Setting("draft", "PATH", "draft of the subject: a directory or a hub id"),
    Setting("launch", "FLAGS", "flags with which the server is started, as one string"),
    Setting(
        "subject",
        "SUBJECT",
        "subject file, directory of them, draft directory or built-in subject; "
        "default: all built-in subjects",
        is_list=True,
    ),
    Setting(
        "tier",
        "TIER",
        f"exactly these tiers: {', '.join(TIERS)}; default: {', '.join(DEFAULT_TIERS)}",
        is_list=True,
        has_commas=True,
    ),
    Setting("family", "FAMILY", "contracts of these families only", is_list=True, has_commas=True),
    Setting(
        "contract",
        "ID",
        "these contracts only; * and ? stand for any letters",
        is_list=True,
        has_commas=True,
    ),
    Setting("device", "DEVICE", "where load and model run: cpu (default) or cuda"),
    Setting("contracts", "DIR", "contract files to judge instead of the built-in ones"),
    Setting("waivers", "FILE", "waivers instead of the built-in ones"),
    Setting("timeout", "SECONDS", "time that one probe may take; default: 300"),
    Setting("weights", "", "read the values of the draft's weights as well", is_switch=True),
    Setting(
        "report",
        "FORMAT=PATH",
        f"write a report as well; formats: {', '.join(FORMATS)}",
        is_list=True,
    ),
)


def _tiers(names: Collection[str] = DEFAULT_TIERS) -> tuple[Tier, ...]:
    from eagle3_contracts.facts import Tier

    return tuple(tier for tier in Tier if tier in names)


_BY_NAME = {setting.name: setting for setting in SETTINGS}


@dataclass(frozen=True, slots=True)
class Options:
    """What a run was asked for, with every value checked."""

    subject: tuple[str, ...] = ()
    target: str | None = None
    draft: str | None = None
    launch: str | None = None
    tier: tuple[Tier, ...] = field(default_factory=_tiers)
    family: tuple[str, ...] = ()
    contract: tuple[str, ...] = ()
    device: str = "cpu"
    contracts: str | None = None
    waivers: str | None = None
    timeout: float = 300.0
    weights: bool = False
    report: tuple[tuple[str, Path], ...] = ()
    """Format and path of each report file."""
    has_chosen_subjects: bool = False
    """Subjects were chosen for this run, so that it says nothing about the others."""


def find_pyproject(folder: Path) -> Path | None:
    """Return the nearest pyproject.toml in the folder or above it."""
    files = (place / "pyproject.toml" for place in (folder, *folder.parents))
    return next((file for file in files if file.is_file()), None)


def read_settings(pyproject: Path | None) -> dict[str, Any]:
    """Return the table ``[tool.eagle3_contracts]`` of the file; empty where there is none.

    Relative paths start at the file. Raises OptionError for a file that is not TOML, an unknown
    key, and a value that is neither text, nor a number, nor a list of texts.
    """
    if pyproject is None:
        return {}
    text = pyproject.read_bytes()
    if b"eagle3_contracts" not in text:  # spares a bystander the TOML parser
        return {}
    table = _table(pyproject, text)
    problems = [
        Problem(str(pyproject), f"{TABLE}: {said}")
        for key, value in table.items()
        if (said := _wrong_setting(key, value))
    ]
    raise_if_any(OptionError, problems)
    return {key: _from_file(key, value, pyproject.parent) for key, value in table.items()}


def parse_options(
    given: Mapping[str, Any], settings: Mapping[str, Any] | None = None, prefix: str = "--"
) -> Options:
    """Return the options of a command line, over those of the settings.

    ``given`` holds strings or lists of strings by name, None where an option was not given.
    Subjects chosen on the command line replace those of the settings, with their target, draft
    and launch. Raises OptionError with every wrong value.
    """
    chosen = {name: value for name, value in given.items() if value not in (None, [])}
    has_chosen_subjects = any(name in chosen for name in _SUBJECT_GROUP)
    inherited = {
        name: value
        for name, value in (settings or {}).items()
        if name not in chosen and not (has_chosen_subjects and name in _SUBJECT_GROUP)
    }
    values: dict[str, Any] = {}
    problems: list[Problem] = []
    for source, layer in ((TABLE + ".", inherited), (prefix, chosen)):
        for name, raw in layer.items():
            words = _words(_BY_NAME[name], raw)
            said = _CHECKS.get(name, _anything)(words)
            problems += [Problem(f"{source}{name}", text) for text in said]
            values[name] = words
    raise_if_any(OptionError, problems)
    typed = {name: _typed(name, words) for name, words in values.items()}
    return Options(**typed, has_chosen_subjects=has_chosen_subjects)


def _table(pyproject: Path, text: bytes) -> dict[str, Any]:
    import tomllib

    try:
        found = tomllib.loads(text.decode()).get("tool", {}).get("eagle3_contracts", {})
    except (ValueError, RecursionError) as error:
        raise OptionError(Problem(str(pyproject), f"not TOML: {error}")) from None
    if not isinstance(found, dict):
        raise OptionError(Problem(str(pyproject), f"{TABLE} must be a table"))
    return found


def _wrong_setting(key: str, value: Any) -> str:
    if key not in _BY_NAME:
        hint = did_you_mean(key, _BY_NAME) or f"; known are {', '.join(sorted(_BY_NAME))}"
        return f"unknown key '{key}'{hint}"
    if _BY_NAME[key].is_switch:
        return "" if isinstance(value, bool) else f"{key} must be true or false, not {value!r}"
    if isinstance(value, str) or (key == "timeout" and type(value) in (int, float)):
        return ""
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return "" if _BY_NAME[key].is_list else f"{key} takes one value, not a list"
    kind = "a string or a list of strings" if _BY_NAME[key].is_list else "a string"
    return f"{key} must be {'a number' if key == 'timeout' else kind}, not {value!r}"


def _from_file(key: str, value: Any, base: Path) -> Any:
    if isinstance(value, list):
        return [_from_file(key, item, base) for item in value]
    if _BY_NAME[key].is_switch:
        return value
    if key == "report" and "=" in value:
        form, _, path = value.partition("=")
        return f"{form}={base / path}"
    # What is not there may be a built-in subject or a hub id.
    from eagle3_contracts.files import is_absent

    return str(base / value) if key in _PATHS and not is_absent(base / value) else value


def _words(setting: Setting, raw: Any) -> list[str]:
    items = raw if isinstance(raw, (list, tuple)) else [raw]
    words = [str(item) for item in items]
    if setting.has_commas:
        words = [part.strip() for word in words for part in word.split(",")]
    return words


def _typed(name: str, words: Sequence[str]) -> Any:
    if name == "report":
        return tuple((form, Path(path)) for form, _, path in (w.partition("=") for w in words))
    if name == "timeout":
        return float(words[-1])
    if _BY_NAME[name].is_switch:
        return words[-1] == "True"
    if name == "tier":
        return _tiers(words)
    return tuple(words) if _BY_NAME[name].is_list else words[-1]


def _anything(words: Sequence[str]) -> list[str]:
    return ["is empty; give a value or leave the option out"] if "" in words else []


def _check_tiers(words: Sequence[str]) -> list[str]:
    return _unknown("tier", words, TIERS)


def _check_families(words: Sequence[str]) -> list[str]:
    from eagle3_contracts.contract import Family

    return _unknown("family", words, tuple(Family))


def _check_device(words: Sequence[str]) -> list[str]:
    return _unknown("device", words, DEVICES)


def _unknown(what: str, words: Sequence[str], known: Collection[str]) -> list[str]:
    return [
        f"unknown {what} '{word}'{did_you_mean(word, known) or '; known are ' + ', '.join(known)}"
        for word in words
        if word not in known
    ]


def _check_timeout(words: Sequence[str]) -> list[str]:
    try:
        is_positive = 0 < float(words[-1]) < float("inf")
    except ValueError:
        is_positive = False
    return [] if is_positive else [f"'{words[-1]}' is no number of seconds above 0"]


def _check_reports(words: Sequence[str]) -> list[str]:
    return [said for word in words if (said := _wrong_report(word))]


def _wrong_report(word: str) -> str:
    form, _, path = word.partition("=")
    if not path:
        return f"'{word}' must be FORMAT=PATH, for instance json=report.json"
    if said := _unknown("format", [form], FORMATS):
        return said[0]
    from eagle3_contracts.files import is_directory

    if is_directory(Path(path)):
        return f"{path} is a directory; name a file in it"
    folder = Path(path).parent
    return "" if is_directory(folder) else f"there is no directory {folder} to write {path} to"


_CHECKS = {
    "tier": _check_tiers,
    "family": _check_families,
    "device": _check_device,
    "timeout": _check_timeout,
    "report": _check_reports,
}
