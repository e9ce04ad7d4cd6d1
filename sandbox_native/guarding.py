"""A writable root's guards as things that a plan shows. Linux, host process; called by showing.py and workspace_checks.py."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from sandbox_native import sockets, survey
from sandbox_native.paths import contains
from sandbox_native.policy import Policy
from sandbox_native.protection import Protection, Wanted, protect
from sandbox_native.rules import Access
from sandbox_native.shown import Shown
from sandbox_native.survey import Survey


@dataclass(frozen=True, slots=True, kw_only=True)
class Guarded:
    """One writable root. `protected`, `hidden` and `roots` (others beneath it) as the guest sees them; `protection`: what was found."""

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
            return tuple(path[len(self.inside) + 1 :] for path in paths if path != self.inside and contains(self.inside, path))

        return Wanted(
            host=self.host,
            deny_write=policy.deny_write,
            protected=relative(self.protected),
            hidden=(*relative(self.hidden), *seen.quarantines),
            roots=relative(self.roots),
        )


def guarded(root: int, one: Guarded, policy: Policy) -> Guarded:
    """With what has to be guarded in the open directory `root`."""
    seen = survey.walk(root, sockets.RUN, deep=False)
    return replace(one, protection=protect(root, one.wanted(policy, seen), seen))
