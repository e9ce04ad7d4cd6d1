"""What a policy protects in one host directory, as a commit asks for it. Host process; called by backends/apart.py.

It is asked at each commit: the host's directory may have other repositories of git in it by then.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Final

from sandbox_native import paths
from sandbox_native.environment import WORKSPACE
from sandbox_native.guarding import by_host
from sandbox_native.mandatory import NAMES, within
from sandbox_native.policy import Policy
from sandbox_native.survey import Bound, walk

_BOUND: Final = Bound(names=200_000, seconds=5.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Protected:
    """Names are relative to the directory, each with the policy's field that lists it ("" for the mandatory ones).

    `names` are those of the directory and of each of git's working trees in it, `paths` of the directory alone. `tops` are
    working trees that it has up to some levels down, and `repositories` what looks like a repository.
    """

    names: tuple[tuple[str, str], ...] = ()
    paths: tuple[tuple[str, str], ...] = ()
    tops: tuple[str, ...] = ()
    repositories: tuple[str, ...] = ()


def protected(policy: Policy, inside: str, root: int) -> Protected:
    """Of the directory `root`, which the guest sees at `inside`."""
    host = os.readlink(f"/proc/self/fd/{root}")
    if inside == WORKSPACE:
        policy = by_host(host, policy)
    fields = (("Policy.protected", policy.protected), ("Policy.hidden", policy.hidden))
    found = walk(root, _BOUND, deep=False)
    return Protected(
        names=(*((name, "") for name in NAMES), *((name, "Policy.deny_write") for name in policy.deny_write)),
        paths=(
            *((name, "") for name in within(host, policy.deny_write)),
            *(
                (path[len(inside) + 1 :], field)
                for field, listed in fields
                for path in listed
                if path != inside and paths.contains(inside, path)
            ),
        ),
        tops=found.repositories,
        repositories=found.git_directories,
    )
