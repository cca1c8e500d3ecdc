"""A case: one subject under judgement, and the facts gathered about it so far."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from eagle3_contracts.errors import BadInput
from eagle3_contracts.facts import GROUPS, Gap, GapKind, Record, Tier, as_variables
from eagle3_contracts.probes import Probe, Request
from eagle3_contracts.subject import ResolvedSubject
from eagle3_contracts.verdict import Result

Progress = Callable[[str, Tier], None]
"""Called with subject and tier before a probe of tier load or dearer runs."""

_RANK = {GapKind.ABSENT: 0, GapKind.BROKEN: 1, GapKind.UNTESTABLE: 2}


class Case:
    """Runs each probe at most once, when the first of its facts is asked for."""

    def __init__(
        self,
        subject: ResolvedSubject,
        probes: Sequence[Probe],
        request: Request,
        progress: Progress | None = None,
    ) -> None:
        self.subject = subject
        self.results: dict[str, Result] = {}
        """Verdicts by contract, before waivers."""
        self._probes = probes
        self._request = request
        self._progress = progress
        self._facts: dict[str, Record | Gap] = {}
        self._variables: dict[str, dict[str, Any]] = {}
        self._bad_input: dict[str, BadInput] = {}

    def variables(self, groups: Iterable[str]) -> dict[str, dict[str, Any]]:
        """Return the given groups as rules read them; those that are gaps are left out.

        Raises BadInput when a probe finds that the subject makes no sense.
        """
        groups = tuple(groups)
        new = [group for group in groups if group not in self._variables]
        for group in sorted(new, key=_cost):
            self._variables.update(as_variables({group: self._fact(group)}))
        return {name: self._variables[name] for name in groups if name in self._variables}

    def gap(self, groups: Iterable[str]) -> Gap | None:
        """Return what is missing among the groups, looking at the cheapest tier first.

        Probes of the dearer tiers do not run once something is missing. Raises as `variables`.
        """
        by_cost: dict[int, list[str]] = {}
        for group in sorted(set(groups) - self._variables.keys()):
            by_cost.setdefault(_cost(group), []).append(group)
        for _, names in sorted(by_cost.items()):
            gaps = [fact for name in names if isinstance(fact := self._fact(name), Gap)]
            if gaps:
                return min(gaps, key=lambda gap: _RANK[gap.kind])
        return None

    def _fact(self, group: str) -> Record | Gap:
        if group not in self._facts:
            probe = next((probe for probe in self._probes if group in probe.groups), None)
            if probe is None:
                self._facts[group] = Gap(GapKind.BROKEN, f"no probe finds out about '{group}'")
            else:
                self._run(probe)
        return self._facts[group]

    def _run(self, probe: Probe) -> None:
        if probe.name in self._bad_input:
            raise self._bad_input[probe.name]
        if self._progress is not None and probe.tier is not Tier.STATIC:
            self._progress(self.subject.name, probe.tier)
        try:
            found = dict(probe.run(self.subject, self._request))
        except BadInput as error:
            self._bad_input[probe.name] = error
            raise
        except Exception as error:  # a broken probe must not hide the verdicts of the others
            found = dict.fromkeys(probe.groups, _broken(probe, error))
        for group in probe.groups:
            missing = Gap(GapKind.BROKEN, f"the {probe.name} probe gave no '{group}'")
            self._facts[group] = found.get(group, missing)


def _cost(group: str) -> int:
    return GROUPS[group][1].cost


def _broken(probe: Probe, error: Exception) -> Gap:
    return Gap(GapKind.BROKEN, f"the {probe.name} probe raised {type(error).__name__}: {error}")
