"""Contracts as pytest items: collecting and judging them, and reporting what came of it.

Every process of a run, the controller and the workers of xdist, makes the same plan and collects
the same items. Workers judge; their verdicts travel as an attribute of pytest's reports, and the
controller alone prints the table and writes the files.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Generator, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from eagle3_contracts import report
from eagle3_contracts.catalogue import Entry
from eagle3_contracts.contract import Family
from eagle3_contracts.data import contracts_dir
from eagle3_contracts.errors import BadInput, OptionError, Problem
from eagle3_contracts.facts import Tier
from eagle3_contracts.options import (
    SETTINGS,
    Options,
    find_pyproject,
    parse_options,
    read_settings,
)
from eagle3_contracts.plan import Plan, make_plan
from eagle3_contracts.report.document import as_json, result_from_json
from eagle3_contracts.report.failure import failure_text
from eagle3_contracts.report.junit import properties
from eagle3_contracts.report.outcome import Outcome, label, number
from eagle3_contracts.report.style import Style, can_show
from eagle3_contracts.report.terminal import failures_of, summary, table_of
from eagle3_contracts.run import in_order, where
from eagle3_contracts.serving import gpus
from eagle3_contracts.subject import ResolvedSubject
from eagle3_contracts.verdict import Result, Verdict

ATTRIBUTE = "eagle3_results"
"""Attribute of a report of pytest that holds verdicts as JSON objects, the item's own first."""

_RESULTS = pytest.StashKey[tuple[Result, ...]]()
_BAD_INPUT = "eagle3_bad_input"
_WORDS = {"waived": "waived", "warning": "warned", "note": "warned"}
"""Categories of their own in pytest's counts, by label of the result."""
_MARKS = {"waived": "w", "warning": "W", "note": "W"}


def start(config: pytest.Config) -> None:
    """Read everything that the run needs, and register the hooks; UsageError for bad input."""
    try:
        plan = make_plan(_options(config))
        _check_workers(config, plan.options)
        fuzzing = _fuzzing(config, plan)
    except BadInput as error:
        raise pytest.UsageError(*map(str, error.problems)) from None
    _register_markers(config)
    config.pluginmanager.register(ContractPlugin(config, plan), "eagle3_contracts_run")
    if fuzzing is not None:
        config.pluginmanager.register(fuzzing, "eagle3_contracts_fuzz")


def _check_workers(config: pytest.Config, options: Options) -> None:
    """Refuse more workers than there are GPUs; xdist has made its list of them by now."""
    workers = len(config.getoption("tx", None) or ())
    if workers and options.device == "cuda" and not hasattr(config, "workerinput"):
        reason = gpus.refusal(workers, os.environ)
        if reason:
            raise OptionError(Problem("--eagle3-device cuda", reason))


def _fuzzing(config: pytest.Config, plan: Plan) -> object | None:
    budget = config.getoption("eagle3_fuzz")
    if budget is None:
        return None
    from eagle3_contracts.fuzz.items import make_plugin

    return make_plugin(plan, budget, config.getoption("eagle3_fuzz_seed") or 0)


class ContractPlugin:
    """The hooks of one run."""

    def __init__(self, config: pytest.Config, plan: Plan) -> None:
        self.config = config
        self.plan = plan
        self.checker = plan.checker()
        self.results: dict[tuple[str, str], Result] = {}
        self.has_bad_input = False
        self.told: set[tuple[str, Tier]] = set()
        self.is_worker = hasattr(config, "workerinput")
        self.files: dict[Path, list[Entry]] = {}
        for entry in plan.selected:
            self.files.setdefault(Path(entry.source).resolve(), []).append(entry)
        self._add_home()

    def _add_home(self) -> None:
        """Have the contracts collected: alone, or next to what the command line names.

        Nothing is added to a command line that names contract files, or items in them.
        """
        config, options = self.config, self.plan.options
        home = Path(options.contracts).absolute() if options.contracts else contracts_dir()
        if config.args_source is not pytest.Config.ArgsSource.ARGS:
            config.args = [str(home)]
        elif not any(_is_inside(argument, home, config) for argument in config.args):
            config.args = [*config.args, str(home)]

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_make_scheduler(self, config: pytest.Config, log: Any) -> Any:
        """Keep the contracts of a subject on one worker, where groups are asked for."""
        if config.getoption("dist") != "loadgroup":
            return None
        from eagle3_contracts.scheduling import SubjectScheduling

        return SubjectScheduling(config, log)

    def pytest_report_header(self) -> str:
        """Say what is judged, and where."""
        plan, options = self.plan, self.plan.options
        dearest = max(options.tier, key=lambda tier: tier.cost)
        return (
            f"eagle3_contracts: {number(len(plan.selected), 'contract')}, "
            f"{number(len(plan.subjects), 'subject')}; "
            f"tiers {', '.join(options.tier)}; {where(dearest, options.device)}"
        )

    def pytest_collect_file(self, file_path: Path, parent: pytest.Collector) -> ContractFile | None:
        """Collect the contract files of the catalogue, wherever else YAML files lie."""
        entries = self.files.get(file_path.resolve(), []) if file_path.suffix == ".yaml" else []
        if not entries:
            return None
        file: ContractFile = ContractFile.from_parent(parent, path=file_path)
        file.entries, file.plugin = entries, self
        return file

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Put the contracts last, subject by subject, each after those it depends on."""
        place = {entry.contract.id: at for at, entry in enumerate(self.plan.selected)}
        subjects = {subject.name: at for at, subject in enumerate(self.plan.subjects)}
        mine = [item for item in items if isinstance(item, ContractItem)]
        mine.sort(key=lambda i: (subjects[i.subject.name], place[i.entry.contract.id]))
        items[:] = [*(item for item in items if not isinstance(item, ContractItem)), *mine]

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> None:
        """Say what is slow before it runs; within a test, pytest keeps what is printed."""
        is_quiet = self.is_worker or self.config.get_verbosity() < 0
        if is_quiet or not isinstance(item, ContractItem):
            return
        slow = (item.subject.name, item.entry.contract.tier)
        if slow[1] is not Tier.STATIC and slow not in self.told:
            self.told.add(slow)
            self._say(": ".join(slow))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Turn a verdict into an outcome that pytest knows."""
        made = yield
        if not isinstance(item, ContractItem) or call.when != "call":
            return made
        results = item.stash.get(_RESULTS, ())
        if results:
            setattr(made, ATTRIBUTE, [as_json(result) for result in results])
            _set_outcome(made, results[0], item)
        elif call.excinfo is not None and isinstance(call.excinfo.value, BadInput):
            setattr(made, _BAD_INPUT, True)
        return made

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(
        self, report: pytest.CollectReport | pytest.TestReport
    ) -> tuple[str, str, tuple[str, dict[str, bool]]] | None:
        """Count waived contracts and warnings as such."""
        results = _results(report)
        name = label(results[0]) if results else ""
        if name not in _WORDS:
            return None
        return _WORDS[name], _MARKS[name], (_WORDS[name].upper(), {"yellow": True})

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Gather the verdicts, those of workers too."""
        self.has_bad_input |= hasattr(report, _BAD_INPUT)
        for result in _results(report):
            self.results[result.contract, result.subject] = result

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Write the report files; fail the run for bad input and for unmatched waivers."""
        if self.is_worker or self.config.getoption("collectonly"):
            return
        try:
            for form, path in self.plan.options.report:
                report.write(form, self.outcome, path)
        except BadInput as error:
            self._say(f"ERROR: {error}")
            self.has_bad_input = True
        if self.has_bad_input:
            session.exitstatus = pytest.ExitCode.USAGE_ERROR
        elif self.outcome.unmatched and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the table and the counts."""
        if self.config.getoption("collectonly") or not self.outcome.results:
            return
        outcome, style = self.outcome, _style(self.config)
        warned = [result for result in outcome.results if label(result) in ("warning", "note")]
        parts = [table_of(outcome, style)] if self.config.get_verbosity() >= 0 else []
        parts += [*failures_of(Outcome(tuple(warned)), style), summary(outcome, style)]
        terminalreporter.write_sep("=", "contracts")
        terminalreporter.write_line("\n\n".join(parts))

    def pytest_unconfigure(self) -> None:
        """End the child processes of the probes."""
        self.checker.close()

    @property
    def outcome(self) -> Outcome:
        """The verdicts so far, in the order of the items."""
        names = [subject.name for subject in self.plan.subjects]
        ids = [entry.contract.id for entry in in_order(self.plan.entries)]
        keys = [(contract, name) for name in names for contract in ids]
        results = [self.results[key] for key in keys if key in self.results]
        unmatched = self.plan.unmatched(results)
        return Outcome(tuple(results), self.plan.environment(), tuple(unmatched))

    def _say(self, text: str) -> None:
        reporter = self.config.pluginmanager.get_plugin("terminalreporter")
        if reporter is not None:
            reporter.ensure_newline()
            reporter.write_line(text)


class ContractFile(pytest.File):
    """A contract file."""

    entries: Sequence[Entry]
    plugin: ContractPlugin

    def collect(self) -> Iterable[ContractItem]:
        """Yield an item for each of its contracts and each subject."""
        for subject in self.plugin.plan.subjects:
            for entry in self.entries:
                item: ContractItem = ContractItem.from_parent(
                    self, name=f"{entry.contract.id}[{subject.name}]"
                )
                item.set_up(entry, subject)
                yield item


class ContractItem(pytest.Item):
    """One contract on one subject."""

    entry: Entry
    subject: ResolvedSubject

    def set_up(self, entry: Entry, subject: ResolvedSubject) -> None:
        """Say what is judged, and mark the item so that -m and xdist can select and group it."""
        self.entry, self.subject = entry, subject
        self.add_marker("eagle3")
        self.add_marker(_marker(entry.contract.tier))
        self.add_marker(_marker(entry.contract.family))
        self.add_marker(pytest.mark.xdist_group(subject.name))

    @property
    def plugin(self) -> ContractPlugin:
        """The run that the item belongs to."""
        assert isinstance(self.parent, ContractFile)
        return self.parent.plugin

    def runtest(self) -> None:
        """Judge the contract; ViolationError for a verdict that fails the run."""
        result = self.plugin.checker.judge(self.entry, self.subject)
        results = (result, *self._roots(result))
        self.stash[_RESULTS] = results
        self.user_properties.extend(properties(result))
        if any(one.is_failure for one in results):
            raise ViolationError(results)

    def _roots(self, result: Result) -> list[Result]:
        """Return what blocks the contract, if that is not among the items of the run itself.

        A run must not look clean because only the root of a failure was left out.
        """
        name, items = result.blocked_by, self.session.items
        if not name or any(_is_of(item, name, result.subject) for item in items):
            return []
        root = next(entry for entry in self.plugin.plan.entries if entry.contract.id == name)
        return [self.plugin.checker.judge(root, self.subject)]

    def reportinfo(self) -> tuple[Path, int, str]:
        """Return file, line from 0, and name."""
        return self.path, self.entry.line - 1, self.name

    def repr_failure(  # type: ignore[override]  # a text is all there is to a verdict
        self, excinfo: pytest.ExceptionInfo[BaseException]
    ) -> Any:
        """Return the text of the failure, which needs no traceback."""
        if isinstance(excinfo.value, (ViolationError, BadInput)):
            return str(excinfo.value)
        return super().repr_failure(excinfo)


class ViolationError(Exception):
    """Verdicts that fail the run; its text is what there is to say about them."""

    def __init__(self, results: Iterable[Result]) -> None:
        super().__init__("\n\n".join(failure_text([result]) for result in results))


def _options(config: pytest.Config) -> Options:
    given = {s.name: getattr(config.option, f"eagle3_{s.name}", None) for s in SETTINGS}
    # Not the root directory: pytest takes paths in options it does not know yet for its arguments.
    settings = read_settings(find_pyproject(config.invocation_params.dir))
    return parse_options(given, settings, prefix="--eagle3-")


def _is_inside(argument: str, home: Path, config: pytest.Config) -> bool:
    path = config.invocation_params.dir / argument.partition("::")[0]
    return path.resolve().is_relative_to(home.resolve())


def _results(report: object) -> list[Result]:
    return [result_from_json(data) for data in getattr(report, ATTRIBUTE, ())]


def _marker(name: Tier | Family) -> str:
    kind = "tier" if isinstance(name, Tier) else "family"
    return f"eagle3_{kind}_{name}".replace("-", "_")


def _register_markers(config: pytest.Config) -> None:
    lines = ["eagle3: a contract of eagle3_contracts"]
    lines += [f"{_marker(tier)}: a contract of tier {tier}" for tier in Tier]
    lines += [f"{_marker(family)}: a contract of family {family}" for family in Family]
    if not config.pluginmanager.has_plugin("xdist"):
        lines.append("xdist_group(name): items that xdist keeps on one worker")
    for line in lines:
        config.addinivalue_line("markers", line)


def _is_of(item: pytest.Item, contract: str, subject: str) -> bool:
    if not isinstance(item, ContractItem):
        return False
    return (item.entry.contract.id, item.subject.name) == (contract, subject)


def _set_outcome(made: pytest.TestReport, result: Result, item: ContractItem) -> None:
    """Skip what did not apply or was blocked, and let pytest know a waived one as xfailed."""
    if made.failed:
        return
    if result.verdict is Verdict.WAIVED:
        made.outcome, made.wasxfail = "skipped", result.waiver
    if result.verdict in (Verdict.NOT_APPLICABLE, Verdict.BLOCKED):
        made.outcome = "skipped"
        made.longrepr = (str(item.path), item.entry.line, f"Skipped: {result.message}")


def _style(config: pytest.Config) -> Style:
    writer = config.get_terminal_writer()
    width = min(max(writer.fullwidth, 40), 120)
    return Style(width=width, has_colour=writer.hasmarkup, has_unicode=can_show(sys.stdout))
