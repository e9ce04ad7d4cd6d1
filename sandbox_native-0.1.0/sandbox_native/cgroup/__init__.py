"""Control groups: where we may make them, one base for each Sandbox, one group for each slot, and a broom.

Called by the Linux backend and by doctor, in the host process with the caller's credentials. A Sandbox does::

    hierarchy = discover(cgroup)        # version 2, 1 or 0; once
    sweep(hierarchy)                    # what dead hosts left
    group = make_group(hierarchy, box_uid=…)
    …                                   # group.paths() go into the plan: the launcher removes them after the host;
    …                                   # so does group.entrance: the process that forks the slots goes there first
    slot = group.new_slot()             # pooled; slot.gauges go with it
    slot.prepare(memory_bytes, processes, cpus)   # every run; a few microseconds when nothing changed
    slot.remove(); group.remove()       # once their processes are gone

Pids are never written on the run path: that waits for a grace period of the kernel, 5 to 12 ms.

The modules: ``values`` (pure: parsing, names, the numbers of gauges) <- ``files`` (reading, writing, locks) <- ``discover``
(where may groups be made) <- ``group`` (what both versions share) <- ``v1``, ``v2`` (a base and its slots) and ``sweep``.
"""

from __future__ import annotations

from sandbox_native.cgroup.discover import discover, release
from sandbox_native.cgroup.group import Group, SlotGroup
from sandbox_native.cgroup.sweep import Swept, sweep
from sandbox_native.cgroup.v1 import GroupV1
from sandbox_native.cgroup.v2 import GroupV2
from sandbox_native.cgroup.values import Gauge, Hierarchy

__all__ = ["Gauge", "Group", "Hierarchy", "SlotGroup", "Swept", "discover", "make_group", "release", "sweep"]


def make_group(hierarchy: Hierarchy, *, box_uid: int | None = None) -> Group:
    """The base of a Sandbox. ``box_uid``: whom init runs as, when that is not the caller.

    :raises UnsupportedError: the hierarchy has version 0; the message says why and what helps.
    :raises SetupError: a directory could not be made.
    """
    return (GroupV2 if hierarchy.version == 2 else GroupV1)(hierarchy, box_uid)
