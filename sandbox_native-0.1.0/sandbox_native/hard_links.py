"""Files in a writable directory that have names elsewhere too: a guest that writes such a file writes the other one. Linux, host
process.

Called by showing.py and run_checks.py where `Policy.on_hard_links` asks for it: every file is looked at, which takes its
time. Package managers and git make such files themselves, so the default is not to look.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from dataclasses import dataclass
from typing import Final

from sandbox_native.denials import Denial
from sandbox_native.errors import PolicyError
from sandbox_native.policy import Policy
from sandbox_native.survey import Bound, open_beneath

BOUND: Final = Bound(names=1_000_000, seconds=10.0)
_TOLD: Final = 100  # names in denials
_SHOWN: Final = 3  # in a message
_REASON: Final = "has another name outside of what the guest may write: what it writes there is seen elsewhere"


_Seen = dict[tuple[int, int], tuple[str, int, int]]
"""By device and inode: the first name, how many there are, how many were found."""


@dataclass(frozen=True, slots=True)
class Links:
    """`names`: one for each such file, relative to the root. `complete`: everything was looked at."""

    names: tuple[str, ...]
    complete: bool


def find(root: int, bound: Bound = BOUND) -> Links:
    """Beneath the directory `root`, which stays the caller's; follows no link."""
    seen: _Seen = {}
    deadline, left = time.monotonic() + bound.seconds, bound.names
    complete, waiting = True, [("", 0)]
    for path, inode in waiting:
        if left < 0 or time.monotonic() > deadline:
            break
        try:
            fd = open_beneath(root, path, inode)
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE):
                raise
            complete = complete and error.errno != errno.EACCES
            continue
        try:
            left -= _look(fd, path + "/" if path else "", seen, waiting, left)
        finally:
            os.close(fd)
    complete = complete and left >= 0 and time.monotonic() <= deadline
    names = (name for name, links, found in seen.values() if links > found)
    return Links(tuple(sorted(names)), complete)


def _look(fd: int, above: str, seen: _Seen, waiting: list[tuple[str, int]], most: int) -> int:
    """How many names the directory has."""
    count = 0
    with os.scandir(fd) as entries:
        for entry in entries:
            count += 1
            if count > most:
                break
            if entry.is_dir(follow_symlinks=False):
                waiting.append((above + entry.name, entry.inode()))
                continue
            try:
                status = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue
            if stat.S_ISREG(status.st_mode) and status.st_nlink > 1:
                key = (status.st_dev, status.st_ino)
                name, links, found = seen.get(key, (above + entry.name, status.st_nlink, 0))
                seen[key] = name, links, found + 1
    return count


def check(root: int, policy: Policy, field: str, value: str, inside: str) -> tuple[Denial, ...]:
    """What the policy says to such files in a root: denials, or PolicyError when they are refused or cannot all be looked at."""
    if policy.on_hard_links == "ignore":
        return ()
    links = find(root)
    complete = links.complete
    remedy = 'copy the directory first, or give on_hard_links="report" or "ignore"'
    if policy.on_hard_links == "refuse" and complete and links.names:
        more = f" and {len(links.names) - _SHOWN} more" if len(links.names) > _SHOWN else ""
        reason = f"holds files that have names elsewhere too: {', '.join(links.names[:_SHOWN])}{more}"
        raise PolicyError(reason, field=field, value=value, remedy=remedy)
    if policy.on_hard_links == "refuse" and not complete:  # what has been found may have its other names in the rest
        reason = "has more in it than can be searched for hard links, or something that may not be looked into"
        raise PolicyError(reason, field=field, value=value, remedy=remedy)
    denials = [_denial(f"{inside}/{name}", _REASON) for name in links.names[:_TOLD]]
    if len(links.names) > _TOLD:
        denials.append(_denial(inside, f"{len(links.names) - _TOLD} more files have names elsewhere", len(links.names) - _TOLD))
    if not complete:
        denials.append(_denial(inside, "not all of it could be searched for hard links"))
    return tuple(denials)


def _denial(name: str, reason: str, count: int = 1) -> Denial:
    return Denial(kind="hard_link", name=name, reason=reason, count=count)
