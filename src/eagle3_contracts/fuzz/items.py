"""Fuzzing under pytest: an item for each subject, with its share of the time."""

from __future__ import annotations

from pathlib import Path

import pytest

from eagle3_contracts.errors import BadInput
from eagle3_contracts.fuzz.command import Campaign, chosen, seconds_of
from eagle3_contracts.fuzz.search import require_hypothesis
from eagle3_contracts.plan import Plan
from eagle3_contracts.probes import Request


def make_plugin(plan: Plan, budget: str, seed: int) -> FuzzPlugin:
    """Return the plugin for the subjects and tiers of a plan; OptionError for a wrong budget."""
    require_hypothesis()
    options = plan.options
    request = Request(options.device, options.timeout)
    subjects, seconds = chosen(plan.subjects, None), seconds_of(budget)
    campaign = Campaign(
        entries=plan.entries,
        subjects=subjects,
        tiers=options.tier,
        seed=seed,
        budget=seconds,
        waivers=plan.waivers,
        request=request,
    )
    return FuzzPlugin(campaign)


class FuzzPlugin:
    """Adds the items; all processes of a run add the same ones.

    ``campaign`` holds the subjects and the time of the whole run.
    """

    def __init__(self, campaign: Campaign) -> None:
        self.campaign = campaign

    def pytest_report_header(self) -> str:
        """Say the seed first, so that whatever is found can be found again."""
        campaign = self.campaign
        count = len(campaign.subjects)
        return f"eagle3_contracts: fuzzing with seed {campaign.seed}, {count} subjects"

    def pytest_collection_modifyitems(
        self, session: pytest.Session, items: list[pytest.Item]
    ) -> None:
        """Put one item for each subject at the end."""
        for subject in self.campaign.subjects:
            item: FuzzItem = FuzzItem.from_parent(session, name=f"fuzz[{subject.name}]")
            item.campaign = self.campaign.share(subject)
            item.add_marker("eagle3")
            item.add_marker(pytest.mark.xdist_group(subject.name))
            items.append(item)


class FuzzItem(pytest.Item):
    """The fuzzing of one subject."""

    campaign: Campaign

    def runtest(self) -> None:
        """Fuzz; FoundError for what was found, BadInput for a subject that cannot be read."""
        lines: list[str] = []
        found = self.campaign.run(lines.append)
        if found.broken:
            raise FoundError("\n".join(lines))
        if found.idle:
            pytest.skip(lines[-1])

    def reportinfo(self) -> tuple[Path, None, str]:
        """Return the directory, as there is no file, and the name."""
        return self.path, None, self.name

    def repr_failure(  # type: ignore[override]  # the text says everything
        self, excinfo: pytest.ExceptionInfo[BaseException]
    ) -> object:
        """Return what was found, which needs no traceback."""
        if isinstance(excinfo.value, (FoundError, BadInput)):
            return str(excinfo.value)
        return super().repr_failure(excinfo)


class FoundError(Exception):
    """Properties that do not hold; its text is what there is to say about them."""
