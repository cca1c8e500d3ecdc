"""Which worker of xdist gets which contract: all of a subject go to the same one.

The marker ``xdist_group`` says so already, but xdist 3.8 reads it through an attribute that
pytest 9.2 no longer has; the names of the items say it as well. Imported only where xdist runs.
"""

from __future__ import annotations

import re

from xdist.scheduler import LoadGroupScheduling  # type: ignore[import-untyped]

_ITEM = re.compile(r"\.yaml::[A-Z0-9-]+\[(?P<subject>[^\]]+)\]$")


class SubjectScheduling(LoadGroupScheduling):  # type: ignore[misc]
    """``--dist loadgroup`` that knows the contracts of a subject for a group."""

    def _split_scope(self, nodeid: str) -> str:
        """Return the group of an item; xdist's way to have one's own groups."""
        found = _ITEM.search(nodeid)
        return found["subject"] if found else str(super()._split_scope(nodeid))
