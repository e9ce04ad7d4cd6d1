"""A writable root's guards as things that a plan shows. Linux, host process; called by showing.py and workspace_checks.py."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from sandbox_native import mandatory, sockets, survey
from sandbox_native.environment import WORKSPACE
from sandbox_native.paths import contains
from sandbox_native.policy import Policy
from sandbox_native.protection import Protection, Wanted, protect
from sandbox_native.rules import Access
from sandbox_native.shown import Shown
from sandbox_native.survey import Survey


@dataclass(frozen=True, slots=True, kw_only=True)
class Guarded:
    """One writable root. `protected`, `hidden` and `roots` (others beneath it) as the guest sees them.

    `protection`: what was found there.
    """

    inside: str
    host: str
    protected: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    roots: tuple[str, ...] = ()
    protection: Protection | None = None

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

    def wanted(self, policy: Policy, seen: Survey) -> Wanted:
        def relative(paths: tuple[str, ...]) -> tuple[str, ...]:
            return tuple(path[len(self.inside) + 1 :] for path in paths)

        return Wanted(
            host=self.host,
            deny_write=policy.deny_write,
            protected=relative(self.protected),
            hidden=(*relative(self.hidden), *seen.quarantines),
            roots=relative(self.roots),
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


def guarded(root: int, one: Guarded, policy: Policy) -> Guarded:
    """With what has to be guarded in the open directory `root`."""
    seen = survey.walk(root, sockets.RUN, deep=False)
    return replace(one, protection=protect(root, one.wanted(policy, seen), seen))
