"""Where in a box a file has the device and inode that it has on the host: everywhere but in an overlay. Pure; from the plan."""

from __future__ import annotations

from sandbox_native import paths
from sandbox_native._native import lib
from sandbox_native.plan import Plan


class SameFile:
    """Of the boxes of one plan."""

    def __init__(self, plan: Plan) -> None:
        kinds = {op.target: op.kind for op in (*plan.template, *plan.box)}
        # What the template keeps aside is in each box what it was there.
        kinds |= {op.target: kinds[op.source] for op in plan.box if op.kind == lib.SN_OP_BIND and op.source in kinds}
        shows = (lib.SN_OP_BIND, lib.SN_OP_OVERLAY, lib.SN_OP_CHANGES)
        self._mounts = [(target, kind == lib.SN_OP_BIND) for target, kind in kinds.items() if kind in shows]
        self._mounts.sort(key=lambda mount: mount[0].count("/"), reverse=True)
        self._known: dict[str, bool] = {}

    def at(self, path: str) -> bool:
        """`path`: without any link in it."""
        known = self._known.get(path)
        if known is None:
            if len(self._known) >= 256:
                self._known.clear()
            known = self._known[path] = next((same for target, same in self._mounts if paths.contains(target, path)), True)
        return known
