"""Everything that a policy makes a box show, guard and cover, in the order of mounting. Linux, host process.

Called by hosttree.py once for each plan: looks at what the policy names and refuses what may not be shown. The longest path
counts, and of equal ones the stronger access (rules.py).
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from sandbox_native import covers, hard_links, home, notes, sockets, survey
from sandbox_native.denials import Denial
from sandbox_native.environment import HOME, WORKSPACE
from sandbox_native.errors import PolicyError
from sandbox_native.guarding import Guarded, denied_around, guarded, of_root
from sandbox_native.hostids import is_initial
from sandbox_native.hostmounts import KERNEL, NO_SOCKETS, Mounts
from sandbox_native.mandatory import QUARANTINE
from sandbox_native.paths import contains
from sandbox_native.policy import Policy, ReadPolicy, Writes
from sandbox_native.readable import Readable
from sandbox_native.roots import Found, look_at, look_at_writable
from sandbox_native.rules import Access
from sandbox_native.shown import Cover, Shown
from sandbox_native.survey import Bound

_HOST: Final = "Policy.read"
# At the top of every box, whatever the host has there.
_OURS: Final = frozenset(("/proc", "/dev", "/sys", "/tmp", "/run", "/.empty", "/.roots", "/.changes", WORKSPACE))
APART: Final = frozenset((os.path.dirname(HOME), "/var"))
"""Of the whole host, what a box has made anew, with its entries in it one by one."""
_PRIVATE: Final = frozenset((HOME, "/var/tmp"))


@dataclass(frozen=True, slots=True)
class Root:
    """A directory or file of the host and where it is shown."""

    inside: str
    found: Found
    access: Access
    field: str

    def host(self, inside: str) -> str:
        return self.found.path.rstrip("/") + inside[len(self.inside.rstrip("/")) :]


class Showing:
    """`shown()`, and then what else there is to tell."""

    def __init__(self, policy: Policy, system: Iterable[str], made: Iterable[str], overlays: bool) -> None:
        """`system`: directories of the host that the box has by itself; `made`: files that it makes. `overlays`: this machine has
        them."""
        self._policy, self._mounts, self._overlays = policy, Mounts.read(), overlays
        self._system, self._made = frozenset(system), frozenset(made)
        self.left_out: list[str] = []
        self.absent: list[str] = []
        self.covers: list[Cover] = []
        self.changeable: list[str] = []
        self.unsearched: list[str] = []
        self.denials: list[Denial] = []

    def shown(self) -> list[Shown]:
        roots = self._roots()
        covered = self._covered(roots)
        shown = Readable(
            mounts=self._mounts,
            locked=os.geteuid() != 0 or not is_initial(),
            apart=APART if self._policy.read is ReadPolicy.HOST else frozenset(),
            empty=frozenset(covered.values()),
            skip=_PRIVATE,
        )
        self._show_host(shown)
        self._show_opt(shown)
        for root in roots:
            if root.access is Access.WRITABLE:
                self._show_writable(shown, root)
            elif root.access is Access.READABLE:
                shown.show(root.found, root.inside, root.field, overlay=self._needs_overlay(root.found))
        self.left_out += shown.left_out
        return [*shown.shown, *self._masks(covered, roots), *self._guards(roots, covered)]

    # ---- what is shown ----

    def _roots(self) -> list[Root]:
        """What lies around others first; a readable one that is writable too, or protected, once."""
        policy, found = self._policy, dict[str, Root]()
        for at, (host, inside) in enumerate(policy.readable):
            field = f"Policy.readable[{at}]"
            found[inside] = Root(inside, look_at(host, field, self._mounts), Access.READABLE, field)
        for at, (host, inside) in enumerate(policy.writable):
            field = f"Policy.writable[{at}]"
            covered = [host + path[len(inside) :] for path in (*policy.protected, *policy.hidden) if contains(inside, path)]
            access = Access.READABLE if inside in policy.protected else Access.WRITABLE
            found[inside] = Root(inside, look_at_writable(host, field, self._mounts, covered), access, field)
        for inside in policy.hidden:
            if inside in found:
                del found[inside]
        if policy.read is ReadPolicy.HOST:
            found["/"] = Root("/", look_at("/", _HOST, self._mounts), Access.PROTECTED, _HOST)
        else:
            for path in sorted(self._system if policy.system else ()):
                found.setdefault(path, Root(path, look_at(path, "Policy.system", self._mounts), Access.PROTECTED, ""))
        return sorted(found.values(), key=lambda root: root.inside.count("/") if root.inside != "/" else 0)

    def _show_host(self, shown: Readable) -> None:
        if self._policy.read is not ReadPolicy.HOST:
            return
        overlay = self._policy.host_sockets != "show"
        with os.scandir("/") as entries:
            for entry in sorted(entries, key=lambda entry: entry.name):
                path = f"/{entry.name}"
                if path in _OURS or entry.name.startswith(QUARANTINE):
                    continue
                if entry.is_symlink() and any(contains(path, own) for own in _PRIVATE):
                    shown.left_out.append(path)  # a place that every box has lies beneath it
                    continue
                shown.piece(entry, path, path, _HOST, overlay)
        if not os.path.islink("/var"):
            shown.shown.append(Shown(kind="link", inside="/var/tmp", source="/tmp", field=_HOST))

    def _show_opt(self, shown: Readable) -> None:
        """Of the system's directories the one where whole services live."""
        if self._policy.read is ReadPolicy.HOST or not self._policy.system or "/opt" not in self._system:
            return
        found = look_at("/opt", "Policy.system", self._mounts)
        if found.path == "/opt" and self._policy.host_sockets != "show" and self._has_sockets(found, sockets.SYSTEM):
            shown.show(found, "/opt", "Policy.system", overlay=True)

    def _show_writable(self, shown: Readable, root: Root) -> None:
        found = root.found
        if found.directory and sockets.looks(self._policy, writable=True):
            fd = os.open(found.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                seen = survey.walk(fd, sockets.WRITABLE, deep=True)
                sockets.refuse_living(fd, seen, root.field, found.path)
            finally:
                os.close(fd)
        shown.shown.append(
            Shown(
                kind="bind",
                inside=root.inside,
                source=found.path,
                access=Access.WRITABLE,
                device=found.device,
                inode=found.inode,
                directory=found.directory,
                field=root.field,
            )
        )

    def _needs_overlay(self, found: Found) -> bool:
        if not found.directory or self._policy.host_sockets == "show":
            return False
        return self._policy.host_sockets == "hide" or self._has_sockets(found, sockets.READABLE)

    def _has_sockets(self, found: Found, bound: Bound) -> bool:
        """Or FIFOs, or may have: the look has a bound."""
        beneath = self._mounts.beneath(found.path)
        kinds = {mount.kind for mount in (found.mount, *beneath) if mount is not None}
        if kinds <= NO_SOCKETS | KERNEL:
            return False
        skip = frozenset(mount.point[len(found.path) + 1 :] for mount in beneath if mount.kind in KERNEL)
        try:
            fd = os.open(found.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except PermissionError:
            return True
        try:
            seen = survey.walk(fd, bound if self._overlays else sockets.WRITABLE, deep=True, skip=skip)
        finally:
            os.close(fd)
        return bool(seen.sockets or seen.fifos) or not seen.complete or bool(seen.unreadable)

    # ---- what is covered ----

    def _covered(self, roots: list[Root]) -> dict[str, str]:
        """Paths of the box, each with the host's path behind it ("" where the box makes what is there)."""
        found: dict[str, str] = {}
        for inside in self._policy.hidden:
            places = list(self._places_of(inside, roots))
            self._note(inside, roots)
            if not places and not contains(WORKSPACE, inside):
                self.absent.append(inside)
            found.update(places)
        if self._policy.read is ReadPolicy.HOST:
            for path in home.hidden_paths():
                for other in (path, *self._mounts.other_places(os.path.realpath(path))):
                    self._note(other, roots)
                    found.update(self._places_of(other, roots))
            # Where a home is made, or an account, there are more such places.
            self.covers += (covers.look(path) for path in home.where_homes_come_from())
        return found

    def _note(self, inside: str, roots: list[Root]) -> None:
        root = _around(roots, inside)
        if root is not None:
            self.covers.append(covers.look(root.host(inside)))

    def _places_of(self, inside: str, roots: list[Root]) -> Iterator[tuple[str, str]]:
        """Where something is to be covered so that `inside` leads to nothing, with the host's path there: behind links, since
        nothing can be mounted on one."""
        root = _around(roots, inside)
        if root is None:
            if inside in self._made or any(contains(inside, made) for made in self._made):
                yield inside, ""
            return
        if root.inside == inside and root.inside not in self._policy.hidden and root.access is not Access.PROTECTED:
            return  # a root of the policy's own; of a built-in name the caller's word counts
        host = root.host(inside)
        real = os.path.realpath(host)
        if not os.path.lexists(real):
            return
        if real == host:
            yield inside, host
            return
        for other in roots:
            if contains(other.found.path, real):
                yield other.inside.rstrip("/") + real[len(other.found.path.rstrip("/")) :], real

    def _masks(self, covered: dict[str, str], roots: list[Root]) -> Iterator[Shown]:
        """But for what lies in a writable root, which is guarded with the rest of that."""
        for inside, host in covered.items():
            root = _around(roots, inside)
            if root is not None and root.access is Access.WRITABLE and root.inside != inside:
                continue
            if any(contains(own, inside) for own in _OURS if self._policy.read is ReadPolicy.HOST):
                continue
            directory = stat.S_ISDIR(os.stat(host).st_mode) if host else inside not in self._made
            yield Shown(kind="mask", inside=inside, access=Access.HIDDEN, directory=directory, field="Policy.hidden")

    # ---- what is guarded ----

    def _guards(self, roots: list[Root], covered: dict[str, str]) -> Iterator[Shown]:
        around: list[Guarded] = []
        for root in roots:
            if root.access is not Access.WRITABLE:
                continue
            self._refuse_lifted(root, around)
            if not root.found.directory:
                continue
            fd = os.open(root.found.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                if self._policy.writes is Writes.DIRECT:
                    notes.keep_untold((root.found.device, root.found.inode), notes.settle(fd, self._policy, root.inside))
                one = of_root(root.inside, root.found.path, self._policy, covered, around)
                seen = guarded(fd, one, self._policy, root.field)
                self.denials += hard_links.check(fd, self._policy, root.field, root.found.path, root.inside)
            finally:
                os.close(fd)
            around.append(seen)
            self.changeable += seen.changeable
            self.unsearched += [] if seen.searched else [root.inside]
            yield from seen.shown(root.field)

    def _refuse_lifted(self, root: Root, around: list[Guarded]) -> None:
        """A writable root at or beneath a name that no guest may write."""
        denied = next((path for path in denied_around(root.inside, self._policy, around) if contains(path, root.inside)), None)
        if denied is not None:
            reason = f"{denied} may be written by no guest"
            raise PolicyError(reason, field=root.field, value=root.inside, remedy="leave it out, or show it in readable")


def _around(roots: Iterable[Root], inside: str) -> Root | None:
    around = [root for root in roots if contains(root.inside, inside)]
    return max(around, key=lambda root: len(root.inside.rstrip("/")), default=None)
