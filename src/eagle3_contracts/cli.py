"""The command line: check, diff, features, cases, prove, fuzz, replay, list, explain.

Exit codes: 0 clean, 1 violation, 2 bad input, 3 harness error or not testable, 4 inconclusive,
130 interrupted.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import sys
from collections.abc import Callable, Sequence
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eagle3_contracts.errors import BadInput
from eagle3_contracts.options import SETTINGS, Options, find_pyproject, parse_options, read_settings

if TYPE_CHECKING:
    from eagle3_contracts.facts import Tier
    from eagle3_contracts.plan import Plan
    from eagle3_contracts.report.outcome import Outcome

BAD_INPUT = 2
HARNESS_ERROR = 3
INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code; SystemExit for options argparse refuses."""
    arguments = _parser().parse_args(argv)
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        code: int = arguments.command(arguments)
    except BadInput as error:
        sys.stderr.write(f"{error}\n")
        return BAD_INPUT
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        return INTERRUPTED
    except Exception:  # Python's own code for it, 1, would say that a contract is violated
        sys.excepthook(*sys.exc_info())
        return HARNESS_ERROR
    return code


def check(arguments: argparse.Namespace) -> int:
    """Judge contracts on subjects, print the report and write the files asked for."""
    from eagle3_contracts import report
    from eagle3_contracts.plan import make_plan

    options = _options(arguments)
    outcome = _judged(make_plan(options))
    for form, path in options.report:
        report.write(form, outcome, path)
    _emit(report.render("json", outcome) if arguments.format == "json" else _terminal(outcome))
    return outcome.exit_code


def diff(arguments: argparse.Namespace) -> int:
    """Print which verdicts changed between two JSON reports; 1 if any became worse."""
    from eagle3_contracts.report import difference
    from eagle3_contracts.report.style import style_of

    changed = difference.compare(*map(difference.read, (arguments.before, arguments.after)))
    as_json = arguments.format == "json"
    text = json.dumps(difference.document(changed), indent=2) + "\n" if as_json else None
    _emit(text or difference.render(changed, style_of(sys.stdout)))
    return changed.exit_code


def features(arguments: argparse.Namespace) -> int:
    """Name the slots of a feature dump and compare them with what SGLang will capture."""
    from eagle3_contracts.extraction import Picks, inspect
    from eagle3_contracts.features.dump import open_dump
    from eagle3_contracts.probes import Request
    from eagle3_contracts.report import features as report
    from eagle3_contracts.report import write_text
    from eagle3_contracts.report.style import style_of
    from eagle3_contracts.resolve import subject_from_options

    options = _options(arguments)
    dump = open_dump(arguments.dump)
    subject = subject_from_options(options.target, options.draft, options.launch)
    picks = Picks(arguments.samples, arguments.seed, arguments.tokens)
    found = inspect(dump, subject, picks, Request(options.device, options.timeout))
    as_json = arguments.format == "json"
    text = json.dumps(report.document(found), indent=2) + "\n" if as_json else None
    _emit(text or report.render(found, style_of(sys.stdout)))
    if arguments.picture and found.slots:
        write_text(report.picture(found), arguments.picture)
    elif arguments.picture:
        sys.stderr.write(f"{arguments.picture}: not written, since no slot was identified\n")
    return found.exit_code


def cases(arguments: argparse.Namespace) -> int:
    """Judge the case corpus: public failures, each with what must be said of it."""
    from eagle3_contracts import corpus
    from eagle3_contracts.data import fixtures_dir
    from eagle3_contracts.plan import read_contracts, waivers_of

    options = _options(arguments)
    files = corpus.case_files(arguments.directory or fixtures_dir() / "cases")
    entries = read_contracts(options)
    judged = list(corpus.judge(files, entries, options.tier, waivers_of(options, entries)))
    _emit(corpus.table(judged) + "\n")
    return 0 if all(case.is_right for case in judged) else 1


def prove(arguments: argparse.Namespace) -> int:
    """Put every fault of the contracts in, and look whether they fail."""
    from eagle3_contracts import prove as proving
    from eagle3_contracts.plan import read_contracts, read_subjects, select
    from eagle3_contracts.probes import Request
    from eagle3_contracts.report import proofs

    options = _options(arguments)
    entries = read_contracts(options)
    request = Request(options.device, options.timeout, weights=True)
    prover = proving.Prover(entries, read_subjects(Options()), request)
    is_whole = not (options.contract or options.family)
    with contextlib.closing(prover):
        proven = proving.prove(prover, select(entries, options), options.tier, is_whole=is_whole)
    as_json = arguments.format == "json"
    text = json.dumps(proofs.document(proven), indent=2) + "\n" if as_json else None
    _emit(text or proofs.render(proven))
    return proven.exit_code


def fuzz(arguments: argparse.Namespace) -> int:
    """Draw integrations for a time, and write those that break a property."""
    from eagle3_contracts.fuzz import command
    from eagle3_contracts.plan import make_plan
    from eagle3_contracts.probes import Request, close

    options = _options(arguments)
    plan = make_plan(options)
    campaign = command.Campaign(
        entries=plan.entries,
        subjects=command.chosen(plan.subjects, arguments.model),
        tiers=options.tier,
        seed=random.randrange(10**9) if arguments.seed is None else arguments.seed,
        budget=command.seconds_of(arguments.budget),
        folder=arguments.out or command.FOLDER,
        waivers=plan.waivers,
        request=Request(options.device, options.timeout),
    )
    with contextlib.ExitStack() as stack:
        stack.callback(close)
        return campaign.run(lambda text: _emit(f"{text}\n")).exit_code


def replay(arguments: argparse.Namespace) -> int:
    """Judge what fuzzing found, and say of each whether it is fixed."""
    from eagle3_contracts.fuzz import command
    from eagle3_contracts.plan import read_contracts

    entries = read_contracts(_options(arguments))
    return 1 if command.replay(arguments.file, entries, lambda text: _emit(f"{text}\n")) else 0


def list_contracts(arguments: argparse.Namespace) -> int:
    """Print the contracts that the options select."""
    from eagle3_contracts.plan import read_contracts, select
    from eagle3_contracts.report.listing import listing, rows

    options = _options(arguments)
    contracts = [entry.contract for entry in select(read_contracts(options), options)]
    as_json = arguments.format == "json"
    _emit(json.dumps(rows(contracts), indent=2) + "\n" if as_json else listing(contracts))
    return 0


def explain(arguments: argparse.Namespace) -> int:
    """Print everything about one contract."""
    from eagle3_contracts.plan import entry_named, read_contracts
    from eagle3_contracts.report.listing import explanation
    from eagle3_contracts.report.style import style_of

    entry = entry_named(read_contracts(_options(arguments)), arguments.id)
    _emit(explanation(entry, style_of(sys.stdout).width))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="eagle3-contracts",
        description="Contract tests for EAGLE-3 drafts and the engine that serves them.",
        epilog="Exit codes: 0 clean, 1 violation, 2 bad input, 3 harness error or not testable, "
        "4 inconclusive.",
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    one = commands.add_parser("check", help="judge contracts on subjects")
    one.set_defaults(command=check)
    one.add_argument("subject", nargs="*", metavar="SUBJECT", help=_doc("subject"))
    _add_settings(one, [setting.name for setting in SETTINGS if setting.name != "subject"])
    _add_format(one)
    two_reports = commands.add_parser("diff", help="show what changed between two JSON reports")
    two_reports.set_defaults(command=diff)
    for name in ("before", "after"):
        text = "written by check --report json=PATH"
        two_reports.add_argument(name, type=Path, metavar=f"{name.upper()}.json", help=text)
    _add_format(two_reports)
    dump = commands.add_parser("features", help="say which boundaries a feature dump holds")
    dump.set_defaults(command=features)
    dump.add_argument("dump", type=Path, metavar="DUMP", help="directory of samples, or one sample")
    _add_settings(dump, ["target", "draft", "launch", "device", "timeout"])
    for name, (kind, default, text) in _PICKS.items():
        text = f"{text}; default: {default}"
        dump.add_argument(f"--{name}", type=kind, default=default, metavar="N", help=text)
    text = "write the picture of the layers there, as SVG"
    dump.add_argument("--picture", type=Path, metavar="FILE", help=text)
    _add_format(dump)
    corpus = commands.add_parser("cases", help="judge the corpus of public failures")
    corpus.set_defaults(command=cases)
    corpus.add_argument(
        "directory", nargs="?", type=Path, metavar="DIR", help="default: the built-in corpus"
    )
    _add_settings(corpus, ["tier", "contracts"])
    proof = commands.add_parser("prove", help="show that every contract can fail")
    proof.set_defaults(command=prove)
    _add_settings(proof, ["tier", "family", "contract", "contracts", "device", "timeout"])
    _add_format(proof)
    _add_fuzzing(commands)
    two = commands.add_parser("list", help="list the contracts")
    two.set_defaults(command=list_contracts)
    _add_settings(two, ["tier", "family", "contract", "contracts"])
    _add_format(two)
    three = commands.add_parser("explain", help="say everything about one contract")
    three.set_defaults(command=explain)
    three.add_argument("id", metavar="ID", help="id of the contract")
    _add_settings(three, ["contracts"])
    return parser


def _add_fuzzing(commands: Any) -> None:
    drawn = commands.add_parser("fuzz", help="draw integrations and look for what breaks")
    drawn.set_defaults(command=fuzz)
    drawn.add_argument("--model", metavar="ARCH", help="subjects of this target class only")
    drawn.add_argument("--budget", default="60s", metavar="TIME", help="60s (default), 5m, 2h")
    drawn.add_argument("--seed", type=int, metavar="N", help="default: another one each time")
    drawn.add_argument("--out", type=Path, metavar="DIR", help="default: fixtures/regressions")
    _add_settings(drawn, ["subject", "tier", "contracts", "waivers", "device", "timeout"])
    again = commands.add_parser("replay", help="judge what fuzzing found")
    again.set_defaults(command=replay)
    again.add_argument("file", nargs="*", type=Path, metavar="FILE", help="or a directory of them")
    _add_settings(again, ["contracts"])


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"'{text}' is no positive number")
    return int(text)


_PICKS: dict[str, tuple[Callable[[str], int], int, str]] = {
    "samples": (_count, 8, "samples to look at"),
    "seed": (int, 0, "which samples those are"),
    "tokens": (_count, 128, "tokens of each sample, from the first on"),
}


def _add_settings(parser: argparse.ArgumentParser, names: Sequence[str]) -> None:
    for setting in SETTINGS:
        if setting.name in names:
            parser.add_argument(f"--{setting.name}", **setting.argument())


def _add_format(parser: argparse.ArgumentParser) -> None:
    text = "what is printed; default: terminal"
    parser.add_argument("--format", choices=("terminal", "json"), default="terminal", help=text)


def _doc(name: str) -> str:
    return next(setting.doc for setting in SETTINGS if setting.name == name)


def _options(arguments: argparse.Namespace) -> Options:
    given = {setting.name: getattr(arguments, setting.name, None) for setting in SETTINGS}
    settings: dict[str, Any] = read_settings(find_pyproject(Path.cwd()))
    if arguments.command is not check:
        # The settings say what to judge; the catalogue is shown whole.
        settings = {name: value for name, value in settings.items() if name == "contracts"}
    return parse_options(given, settings)


def _judged(plan: Plan) -> Outcome:
    from eagle3_contracts.report.outcome import Outcome

    checker = plan.checker(_show_progress)
    with contextlib.closing(checker):
        results = [
            result for subject in plan.subjects for result in checker.check(subject, plan.selected)
        ]
    return Outcome(tuple(results), plan.environment(), tuple(plan.unmatched(results)))


def _show_progress(subject: str, tier: Tier) -> None:
    sys.stderr.write(f"{subject}: {tier}\n")
    sys.stderr.flush()


def _terminal(outcome: Outcome) -> str:
    from eagle3_contracts.report.style import style_of
    from eagle3_contracts.report.terminal import render

    return render(outcome, style_of(sys.stdout))


def _emit(text: str) -> None:
    """Print; a reader that has gone away, such as ``head``, is no error."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        # Python flushes once more at its end, into whatever is there then.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    sys.exit(main())
