"""A writable root's guards as things that a plan shows. Linux, host process; called by showing.py and run_checks.py."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from sandbox_native import mandatory, survey
from sandbox_native.environment import WORKSPACE
from sandbox_native.errors import PolicyError
from sandbox_native.paths import contains
from sandbox_native.policy import Policy, Writes
from sandbox_native.protection import Protection, Wanted, protect
from sandbox_native.rules import Access
from sandbox_native.shown import Shown
from sandbox_native.snapshots import UnreadError
from sandbox_native.survey import Survey


@dataclass(frozen=True, slots=True, kw_only=True)
class Guarded:
    """One writable root. `protected`, `hidden` and `roots` (others beneath it) as the guest sees them.

    `protection`: what was found there; `searched`: all of it was looked at for repositories.
    """

    inside: str
    host: str
    protected: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    roots: tuple[str, ...] = ()
    protection: Protection | None = None
    searched: bool = True

    @property
    def denied(self) -> frozenset[str]:
        """Names relative to the root, there or not."""
        return frozenset() if self.protection is None else self.protection.denied

    @property
    def changeable(self) -> tuple[str, ...]:
        """Links on the way to a denied name, as the guest sees them: nothing can be mounted on one."""
        return () if self.protection is None else tuple(f"{self.inside}/{name}" for name in self.protection.links)

    def shown(self, field: str) -> Iterator[Shown]:
        for guard in () if self.protection is None else self.protection.guards:
            yield Shown(
                kind="mask" if guard.mask else "guard",
                inside=f"{self.inside}/{guard.name}",
                source=f"{self.host}/{guard.name}",
                access=Access.HIDDEN if guard.mask else Access.PROTECTED if guard.read_only else Access.WRITABLE,
                device=guard.device,
                inode=guard.inode,
                directory=guard.directory,
                field=field,
            )

    @property
    def closed(self) -> frozenset[str]:
        """Nothing in these needs a guard of its own: relative to the root."""
        return frozenset(self._relative((*self.protected, *self.hidden)))

    def _relative(self, paths: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(path[len(self.inside) + 1 :] for path in paths)

    def wanted(self, policy: Policy, seen: Survey) -> Wanted:
        return Wanted(
            host=self.host,
            deny_write=policy.deny_write,
            protected=self._relative(self.protected),
            hidden=(*self._relative(self.hidden), *seen.ours),
            roots=self._relative(self.roots),
        )


def of_root(inside: str, host: str, policy: Policy, covered: Iterable[str] = (), around: Iterable[Guarded] = ()) -> Guarded:
    """One of a policy's writable roots, or a workspace. `covered`: paths that are hidden, beside those that the policy names.
    `around`: the writable roots that it lies in, with what was found there: what is denied in them is denied here too."""
    others = [path for _, path in (*policy.readable, *policy.writable) if path != inside and contains(inside, path)]
    others = [path for path in others if path not in policy.hidden]

    def own(paths: Iterable[str]) -> tuple[str, ...]:
        beneath = (path for path in paths if path != inside and contains(inside, path))
        return tuple(path for path in beneath if not any(contains(other, path) for other in others))

    return Guarded(
        inside=inside,
        host=host,
        protected=own((*policy.protected, *denied_around(inside, policy, around))),
        hidden=own((*covered, *policy.hidden)),
        roots=tuple(others),
    )


def denied_around(inside: str, policy: Policy, around: Iterable[Guarded]) -> list[str]:
    """What the roots around a path deny at it, beneath it or above it: paths as the guest sees them."""
    workspace = Guarded(inside=WORKSPACE, host="")
    found = []
    for outer in (workspace, *around):
        if outer.inside != inside and contains(outer.inside, inside):
            names = mandatory.names((), policy.deny_write) if outer is workspace else outer.denied
            paths = (f"{outer.inside}/{name}" for name in names)
            found += [path for path in paths if contains(path, inside) or contains(inside, path)]
    return found


def by_host(path: str, policy: Policy) -> Policy:
    """Of a workspace: the policy, with what it protects and hides in its own roots at the same place of the host too.
    PolicyError when that is the workspace itself, or around it."""
    found: dict[str, list[str]] = {"protected": [], "hidden": []}
    roots = sorted((*policy.writable, *policy.readable), key=lambda root: len(root[1]), reverse=True)
    for name, listed in (("protected", policy.protected), ("hidden", policy.hidden)):
        for rule in listed:
            host, inside = next((root for root in roots if contains(root[1], rule)), ("", ""))
            place = os.path.realpath(host).rstrip("/") + rule[len(inside.rstrip("/")) :] if host else ""
            if place and contains(place, path):
                reason = f"lies in {rule}, which Policy.{name} lists"
                remedy = "name a directory that the policy leaves to guests"
                raise PolicyError(reason, field="workspace", value=path, remedy=remedy)
            if place and contains(path, place):
                found[name].append(WORKSPACE + place[len(path) :])
    if not any(found.values()):
        return policy
    return replace(
        policy,
        protected=tuple(dict.fromkeys((*policy.protected, *found["protected"]))),
        hidden=tuple(dict.fromkeys((*policy.hidden, *found["hidden"]))),
    )


REPOSITORIES: Final = 512
"""That are guarded in one root: what it costs to look for their names comes before each run, and a guest can make many."""


_UNSEARCHED: Final = "more directories in it than can be searched for git repositories"


def _first(seen: Survey) -> Survey:
    tops = seen.repositories[:REPOSITORIES]
    return replace(seen, repositories=tops, git_directories=seen.git_directories[: REPOSITORIES - len(tops)], complete=False)


def guarded(root: int, one: Guarded, policy: Policy, field: str, seen: Survey | None = None) -> Guarded:
    """With what has to be guarded in the open directory `root`. PolicyError when nobody can tell what that is: with changes that
    are kept apart, the commit still refuses what was not found. `seen`: what is known of it already."""
    if seen is None:
        seen = survey.walk(root, survey.GUARDS, deep=False, skip=one.closed)
    repositories = len(seen.repositories) + len(seen.git_directories)
    if policy.writes is Writes.DIRECT and (not seen.complete or repositories > REPOSITORIES):
        many = f"more than {REPOSITORIES} git repositories in it" if seen.complete else _UNSEARCHED
        reason = f"has {many}, so not all could be guarded"
        remedy = "give a workspace of its own, writes=Writes.COMMIT, or list the directories with the many in protected="
        raise PolicyError(reason, field=field, value=one.host, remedy=remedy)
    if repositories > REPOSITORIES:
        seen = _first(seen)
    try:
        return replace(one, protection=protect(root, one.wanted(policy, seen), seen), searched=seen.complete)
    except PermissionError:
        reason = "the caller may not look into it"
        raise PolicyError(reason, field=field, value=one.host, remedy="chmod u+rwx the directory") from None
    except UnreadError as error:
        remedy = "make it readable, or remove it: what it leads to could not be guarded"
        reason = f"{one.host}/{error.path} cannot be followed: {error.reason}"
        raise PolicyError(reason, field=field, value=one.host, remedy=remedy) from error
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE):
            raise
        reason = f"{error.filename} in it cannot be looked at: {error.strerror}"
        raise PolicyError(reason, field=field, value=one.host, remedy="name a directory that can be read") from error
