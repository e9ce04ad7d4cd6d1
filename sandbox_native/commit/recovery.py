"""Completes a commit that was interrupted, or throws away what it staged. Host process, host's credentials.

Called before every run with a host directory, and before every commit; `recover` is for callers who want it done at once.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from sandbox_native import notes, state
from sandbox_native.commit import durable, journal, place, uppers
from sandbox_native.commit.apply import apply
from sandbox_native.commit.forbidden import Forbidden
from sandbox_native.commit.place import Place, Staging
from sandbox_native.commit.protected import Protected, protected
from sandbox_native.commit.steps import Step
from sandbox_native.denials import Denial
from sandbox_native.descent import DIRECTORY
from sandbox_native.environment import WORKSPACE
from sandbox_native.errors import PolicyError, SetupError, as_setup_error
from sandbox_native.mandatory import join
from sandbox_native.policy import Policy

_LEFT: Final = (
    "a commit that was interrupted is completed from there first: let the caller write to the directory that it is for, make "
    "room on its file system, end what keeps its files, or remove this one to give up what is left of that commit"
)

_GONE: Final = "what an interrupted commit had staged is not beside the directory any more: what is left of that commit is lost"


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovered:
    """True where there was anything left. `denials`: what of it was moved away or not done, and what is to be looked at."""

    found: bool = False
    denials: tuple[Denial, ...] = ()

    def __bool__(self) -> bool:
        return self.found


def recover(path: str | os.PathLike[str]) -> Recovered:
    """Of the directory `path`: whether there was anything left of an interrupted commit, or of a run whose host was killed.
    Waits for a commit that is under way.

    PolicyError when the directory cannot be opened, SetupError when the commit cannot be completed or a run cannot be
    settled; then it can be tried again.
    """
    try:
        fd = os.open(path, DIRECTORY)
    except OSError as error:
        remedy = "give the directory that a run was shown as its workspace or as a writable root"
        raise PolicyError(error.strerror or "cannot be opened", field="path", value=os.fspath(path), remedy=remedy) from error
    try:
        kept = state.look(fd)
        found, denials = (False, ()) if kept is None else notes.settle_kept(fd, kept)
        recovered = recover_fd(fd)
        return Recovered(found=found or recovered.found, denials=(*denials, *recovered.denials))
    except SetupError:
        raise
    except OSError as error:
        raise as_setup_error("commit", error, os.fspath(path)) from error
    finally:
        os.close(fd)


def recover_fd(root: int, policy: Policy | None = None, inside: str = WORKSPACE) -> Recovered:
    """As `recover`, of commits and of changes that were kept on disk; the descriptor stays the caller's. `policy`: what it
    protects of the directory, which guests see at `inside`, is not changed either. One look when there is nothing to do."""
    if not place.found(root):
        return Recovered()
    with place.locked(root) as locked:
        return settle(locked, partial(protected, policy or Policy.strict(), inside, locked.root), inside)


def settle(locked: Place, guarded: Callable[[], Protected], inside: str) -> Recovered:
    """Under the lock."""
    told: list[tuple[str, str]] = []
    found = journal.read(locked)
    if found is not None:
        name, identity, steps = found
        path = os.path.join(os.readlink(f"/proc/self/fd/{locked.above}"), name)
        try:
            staging = place.reopen(locked, name, identity)
            if staging is None:
                told.append(("", _GONE))
            else:
                try:
                    told = complete(locked, staging, steps, one_by_one=False, forbidden=Forbidden(guarded()))
                finally:
                    staging.close()
        except OSError as error:
            raise SetupError("commit", error.errno or 0, path, _LEFT) from error
    journal.remove_left(locked)
    left = locked.remove_left()
    swept = uppers.sweep(locked)  # after the commit: it may have second names for what was committed
    denials = (Denial(kind="commit", name=join(inside, path), reason=why) for path, why in told)
    return Recovered(found=found is not None or left or swept, denials=tuple(denials))


def complete(
    locked: Place, staging: Staging, steps: Sequence[Step], *, one_by_one: bool, forbidden: Forbidden | None = None
) -> list[tuple[str, str]]:
    """Takes the steps that are left and ends the commit; those that could not be taken, as (path, why). `forbidden`: of a
    journal that was found, what it may not change: the policy may be another by now, and who could write beside the directory
    may have changed what is staged."""
    passed_over = apply(steps, locked.root, staging, durable=one_by_one, forbidden=forbidden)
    if not one_by_one:
        durable.write_out(locked.root)
    journal.remove(locked)
    locked.remove_left()
    return passed_over
