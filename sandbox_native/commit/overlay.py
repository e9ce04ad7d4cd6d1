"""One overlay, from reading what the guest changed to committing it. Host process.

Called by changes.py.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from sandbox_native.commit import durable, journal, place
from sandbox_native.commit.listing import Listing
from sandbox_native.commit.node import Node
from sandbox_native.commit.place import Place
from sandbox_native.commit.protected import Protected
from sandbox_native.commit.recovery import complete, settle
from sandbox_native.commit.refusals import refuse
from sandbox_native.commit.staging import stage
from sandbox_native.commit.tree import read
from sandbox_native.errors import SetupError, as_setup_error

_SPACE: Final = "make room on its file system and commit again"
_LEASE: Final = "another process has a lease on a file there that has to be read (/proc/locks): end it and commit again"
_READ_ONLY: Final = "its file system is read-only by now: make it writable and commit again"
_REMEDIES: Final = {errno.ENOSPC: _SPACE, errno.EDQUOT: _SPACE, errno.EWOULDBLOCK: _LEASE, errno.EROFS: _READ_ONLY}


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlay:
    """`upper` and `target` are descriptors of directories, and the caller's. `inside`: where the guest saw it; `host`: the
    path, for messages. `owner`: uid and gid of what the guest made. `protected` is asked at each look."""

    upper: int
    target: int
    inside: str
    host: str
    owner: tuple[int, int]
    protected: Callable[[int], Protected]

    def look(self, into: Listing) -> None:
        """What a commit would do now."""
        try:
            into.take(self._tree(self.target), self.inside)
        except SetupError:
            raise
        except OSError as error:
            raise _failed(error, self.host) from error

    def commit(self, into: Listing) -> None:
        """Commits, and says what was committed.

        SetupError when it is not: then all is as before and can be tried again, unless the commit had happened and could not be
        completed; the next run with this directory goes on with it.
        """
        try:
            with place.locked(self.target) as locked:
                into.refused += settle(locked, partial(self.protected, locked.root), self.inside).denials
                tree = self._tree(locked.root)
                if tree.live:
                    self._commit(locked, tree, into)
                into.take(tree, self.inside)
        except SetupError:
            raise
        except OSError as error:
            raise _failed(error, self.host) from error

    def _tree(self, root: int) -> Node:
        tree = read(self.upper, root)
        refuse(tree, root, self.protected(root))
        return tree

    def _commit(self, locked: Place, tree: Node, into: Listing) -> None:
        one_by_one = tree.live <= durable.FEW
        staging = place.make(locked)
        try:
            try:
                staged = stage(tree, self.upper, staging.new, self.owner, one_by_one)
                if one_by_one:
                    os.fsync(staging.new)
                else:
                    durable.write_out(staging.new)
                journal.write(locked, staging, staged.steps)
            except BaseException:
                journal.remove_left(locked)  # first: without it the rest is only waste, whoever finds it
                locked.remove_left()
                raise
            for path in staged.unkept:
                into.refuse(f"{self.inside}/{path}", "its extended attributes: the file system does not take them")
            for path, why in complete(locked, staging, staged.steps, one_by_one=one_by_one):
                tree.at(path).refuse(why)
        finally:
            staging.close()


def _failed(error: OSError, host: str) -> SetupError:
    hint = _REMEDIES.get(error.errno or 0)
    return as_setup_error("commit", error, host) if hint is None else SetupError("commit", error.errno or 0, host, hint)
