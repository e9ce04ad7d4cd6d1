"""Which access a path has: the order of precedence, as one function. Pure.

The mounts that view.py makes agree with it: what it says is what the kernel is asked to hold. Paths are those that the
guest sees.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Final

from sandbox_native.choices import ReadPolicy
from sandbox_native.environment import HOME, WORKSPACE
from sandbox_native.paths import contains

if TYPE_CHECKING:
    from sandbox_native.policy import Policy

SYSTEM: Final = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt")
"""Directories of the host that hold its programs; `Policy.system` shows them."""
OWN: Final = ("/tmp", HOME, WORKSPACE)
"""What every box mounts anew and its guest may write."""


class Access(IntEnum):
    """What a guest may do with a path; of two rules for one path the smaller value counts."""

    HIDDEN = 0
    """Neither seen nor made: something empty covers it."""
    PROTECTED = 1
    """Read-only beneath a writable root."""
    WRITABLE = 2
    READABLE = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """`access` for `inside` and for all beneath it that no longer rule names."""

    inside: str
    access: Access
    mandatory: bool = False
    """A deny-write that no longer writable rule lifts."""
    field: str = ""
    """The policy's field that it comes from, for messages; empty for what every box has."""


def deciding(rules: Iterable[Rule], path: str) -> Rule | None:
    """The rule that decides about a path; None where none does, and so nothing is there.

    The longest path wins, at equal paths the stronger access; a mandatory one beats whatever would make it writable.
    """
    covering = [rule for rule in rules if contains(rule.inside, path)]
    chosen = max(covering, key=_strength, default=None)
    if chosen is None or chosen.access is not Access.WRITABLE:
        return chosen
    return max((rule for rule in covering if rule.mandatory), key=_strength, default=chosen)


def effective(rules: Iterable[Rule], path: str) -> Access | None:
    """The access that a path has; None where nothing is shown."""
    rule = deciding(rules, path)
    return None if rule is None else rule.access


def _strength(rule: Rule) -> tuple[int, int]:
    return 0 if rule.inside == "/" else rule.inside.count("/"), -rule.access


def declared(policy: Policy) -> list[Rule]:
    """The rules of a policy, but for those that depend on what is on the disk: mandatory denies, and what HOST hides."""
    return [*_roots(policy), *_restrictions(policy)]


def _roots(policy: Policy) -> Iterator[Rule]:
    if policy.read is ReadPolicy.HOST:
        yield Rule(inside="/", access=Access.READABLE, field="Policy.read")
    system = SYSTEM if policy.system else ()
    yield from (Rule(inside=inside, access=Access.READABLE) for inside in ("/etc", "/proc", "/dev", *system))
    yield from (Rule(inside=inside, access=Access.WRITABLE) for inside in (*OWN, "/dev/shm", "/dev/mqueue"))
    for name, pairs, access in (
        ("readable", policy.readable, Access.READABLE),
        ("writable", policy.writable, Access.WRITABLE),
    ):
        for at, (_, inside) in enumerate(pairs):
            yield Rule(inside=inside, access=access, field=f"Policy.{name}[{at}]")


def _restrictions(policy: Policy) -> Iterator[Rule]:
    for name, restricted, access in (
        ("protected", policy.protected, Access.PROTECTED),
        ("hidden", policy.hidden, Access.HIDDEN),
    ):
        for at, inside in enumerate(restricted):
            yield Rule(inside=inside, access=access, field=f"Policy.{name}[{at}]")
