"""Completes a commit that was interrupted, or throws away what it staged. Host process, host's credentials.

Called before every run with a host directory, and before every commit; `recover` is for callers who want it done at once.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from sandbox_native.commit import durable, journal, place, uppers
from sandbox_native.commit.apply import apply
from sandbox_native.commit.forbidden import Forbidden
from sandbox_native.commit.place import Staging
from sandbox_native.commit.protected import Protected, protected
from sandbox_native.commit.steps import Step
from sandbox_native.descent import DIRECTORY
from sandbox_native.environment import WORKSPACE
from sandbox_native.errors import SetupError
from sandbox_native.policy import Policy

_LEFT: Final = (
    "a commit that was interrupted is completed from there first: let the caller write to the directory that it is for, make "
    "room on its file system, end what keeps its files, or remove this one to give up what is left of that commit"
)


def recover(path: str | os.PathLike[str]) -> bool:
    """Of the directory `path`: whether there was anything left of an interrupted commit, or of a run with direct writes
    whose host was killed. Waits for a commit that is under way.

    OSError when the directory cannot be opened, SetupError when the commit cannot be completed; then it can be tried again. A
    journal that no commit of ours wrote is thrown away.
    """
    fd = os.open(path, DIRECTORY)
    try:
        from sandbox_native.notes import settle_all

        left = settle_all(fd)
        return recover_fd(fd) or left
    finally:
        os.close(fd)


def recover_fd(root: int, policy: Policy | None = None, inside: str = WORKSPACE) -> bool:
    """As `recover`; the descriptor stays the caller's. `policy`: what it protects of the directory, which guests see at `inside`,
    is not changed either. Two looks when there is nothing to do."""
    if not place.found(root):
        return False
    with place.locked(root) as locked:
        return settle(locked, partial(protected, policy or Policy.strict(), inside, locked))


def settle(root: int, guarded: Callable[[], Protected]) -> bool:
    """Under the lock."""
    staging = place.reopen(root)
    if staging is None:
        return place.throw_away(root)
    path = staging.path
    try:
        steps = journal.read(staging.fd, place.identity(root))
        if steps is None:
            staging.remove()
        else:
            complete(root, staging, steps, one_by_one=False, forbidden=Forbidden(guarded()))
        uppers.sweep(root, staging.above)  # it may have second names for what was committed
    except OSError as error:
        raise SetupError("commit", error.errno or 0, path, _LEFT) from error
    finally:
        staging.close()
    return True


def complete(
    root: int, staging: Staging, steps: Sequence[Step], *, one_by_one: bool, forbidden: Forbidden | None = None
) -> list[tuple[str, str]]:
    """Takes the steps that are left and ends the commit; those that could not be taken, as (path, why). `forbidden`: of a
    journal that was found, what it may not change, whoever wrote it."""
    passed_over = apply(steps, root, staging, durable=one_by_one, forbidden=forbidden)
    if not one_by_one:
        durable.write_out(root)
    journal.remove(staging.fd)
    os.fsync(staging.fd)  # before what was moved aside goes: a step that is taken again looks for it
    staging.remove()
    return passed_over
