"""A plan: the contracts, subjects and waivers of one run, read and checked before it starts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, TypeVar

from eagle3_contracts.case import Progress
from eagle3_contracts.catalogue import Entry, read_catalogue
from eagle3_contracts.data import fixtures_dir
from eagle3_contracts.errors import (
    BadInput,
    OptionError,
    Problem,
    SubjectError,
    did_you_mean,
    raise_if_any,
)
from eagle3_contracts.files import is_absent
from eagle3_contracts.options import Options
from eagle3_contracts.probes import Request, static
from eagle3_contracts.resolve import is_model, load_subjects, subject_from_options
from eagle3_contracts.run import Checker, in_order
from eagle3_contracts.subject import ResolvedSubject
from eagle3_contracts.verdict import Result
from eagle3_contracts.waiver import Waiver, read_waivers, unmatched

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that a run needs."""

    options: Options
    entries: tuple[Entry, ...]
    """The whole catalogue."""
    selected: tuple[Entry, ...]
    """The contracts that the options select, in the order in which they are judged."""
    subjects: tuple[ResolvedSubject, ...]
    waivers: tuple[Waiver, ...]

    def checker(self, progress: Progress | None = None) -> Checker:
        """Return what judges the contracts of the plan."""
        options = self.options
        given = (("--contracts", options.contracts), ("--waivers", options.waivers))
        return Checker(
            self.entries,
            self.waivers,
            tiers=options.tier,
            request=Request(options.device, options.timeout, weights=options.weights),
            progress=progress,
            flags=[word for name, value in given if value for word in (name, value)]
            + ["--weights"] * options.weights,
        )

    def unmatched(self, results: Sequence[Result]) -> list[str]:
        """Return a text for each waiver that is about nothing; none if subjects were chosen."""
        if self.options.has_chosen_subjects:
            return []
        known = {subject.name: subject.architecture for subject in self.subjects}
        return unmatched(self.waivers, results, known)

    def environment(self) -> dict[str, Any]:
        """Return where the run takes place: device and versions."""
        return asdict(static.environment(self.options.device))


def make_plan(options: Options) -> Plan:
    """Read contracts, subjects and waivers; BadInput with every problem of all of them."""
    errors: list[BadInput] = []
    entries = _try(lambda: read_contracts(options), errors)
    selected = _try(lambda: select(entries or (), options), errors) if entries else None
    subjects = _try(lambda: read_subjects(options), errors)
    waivers = _try(lambda: waivers_of(options, entries or ()), errors) if entries else None
    problems = [problem for error in errors for problem in error.problems]
    raise_if_any(type(errors[0]) if len(errors) == 1 else BadInput, problems)
    return Plan(options, entries or (), selected or (), tuple(subjects or ()), waivers or ())


def read_contracts(options: Options) -> tuple[Entry, ...]:
    """Return the whole catalogue of the run; ContractError as of `read_catalogue`."""
    return read_catalogue(None if options.contracts is None else [Path(options.contracts)])


def select(entries: Iterable[Entry], options: Options) -> tuple[Entry, ...]:
    """Return the contracts that the options select, in the order in which they are judged.

    Raises OptionError for a name or pattern that no contract has.
    """
    entries = tuple(entries)
    ids = [entry.contract.id for entry in entries]
    problems = [
        Problem("contract", f"no contract is named '{pattern}'{did_you_mean(pattern, ids)}")
        for pattern in options.contract
        if not any(fnmatchcase(name, pattern) for name in ids)
    ]
    raise_if_any(OptionError, problems)
    return tuple(entry for entry in in_order(entries) if _is_selected(entry, options))


def entry_named(entries: Iterable[Entry], name: str) -> Entry:
    """Return the contract of that id; OptionError with the nearest id if there is none."""
    by_id = {entry.contract.id: entry for entry in entries}
    if name not in by_id:
        hint = did_you_mean(name.upper(), by_id) or f"; known are {', '.join(by_id)}"
        raise OptionError(Problem("contract", f"no contract is named '{name}'{hint}"))
    return by_id[name]


def read_subjects(options: Options) -> list[ResolvedSubject]:
    """Return the subjects of the run: the given ones, or all that are built in.

    Raises BadInput of every kind that reading subjects raises.
    """
    parts = (options.target, options.draft, options.launch)
    if not options.subject:
        is_given = any(part is not None for part in parts)
        return [subject_from_options(*parts)] if is_given else _built_in([_subjects_dir()])
    if parts == (None, None, None):
        return _built_in([_path_of(name) for name in options.subject])
    problems = [
        Problem("options", f"target, draft and launch do not go with {text}")
        for text in _not_combinable(options)
    ]
    raise_if_any(OptionError, problems)
    return [subject_from_options(parts[0], path, parts[2]) for path in options.subject]


def built_in_subjects() -> list[str]:
    """Return the names of the built-in subjects."""
    return sorted(path.stem for path in _subjects_dir().glob("*.yaml"))


def _try(read: Callable[[], T], errors: list[BadInput]) -> T | None:
    try:
        return read()
    except BadInput as error:
        errors.append(error)
        return None


def _is_selected(entry: Entry, options: Options) -> bool:
    contract = entry.contract
    patterns = options.contract or ("*",)
    return (
        contract.tier in options.tier
        and (not options.family or contract.family in options.family)
        and any(fnmatchcase(contract.id, pattern) for pattern in patterns)
    )


def _not_combinable(options: Options) -> list[str]:
    if options.draft is not None:
        return ["a subject and a second draft; name the draft once"]
    return [
        f"'{path}', which names its own parts; give them with a draft directory instead"
        for path in options.subject
        if not is_model(path)
    ]


def _subjects_dir() -> Path:
    return fixtures_dir() / "subjects"


def _path_of(name: str) -> Path:
    """Return the path of a subject; SubjectError for a name that is neither a path nor built in."""
    if not is_absent(Path(name)) or len(Path(name).parts) > 1:
        return Path(name)
    built_in = _subjects_dir() / f"{name}.yaml"
    if built_in.is_file():
        return built_in
    names = built_in_subjects()
    hint = did_you_mean(name, names) or f"; built in are {', '.join(names)}"
    raise SubjectError(Problem(name, f"no such file, and no built-in subject{hint}"))


def _built_in(paths: Iterable[Path]) -> list[ResolvedSubject]:
    """Return the subjects of the files; built-in ones go by their name on a command line."""
    home = str(_subjects_dir())
    return [
        subject.model_copy(update={"origin": subject.name})
        if str(Path(subject.origin).parent) == home
        else subject
        for subject in load_subjects([str(path) for path in paths])
    ]


def waivers_of(options: Options, entries: Iterable[Entry]) -> tuple[Waiver, ...]:
    """Return the waivers of the run: the given ones, or those built in; raises WaiverError."""
    ids = [entry.contract.id for entry in entries]
    sglang = static.environment(options.device).sglang
    if options.waivers is not None:
        return read_waivers([Path(options.waivers)], ids, sglang)
    # The built-in waivers are about the built-in contracts.
    return read_waivers([fixtures_dir() / "waivers"], ids, sglang) if not options.contracts else ()
