"""Where links and git's own pointers lead beneath a writable directory of the host's. Linux, host process.

Called by protection.py. A denied name may be reached in several ways: a link on the way to it, the `.git` file of a worktree
or submodule, the `commondir` of a git directory. What lies at their end is denied as well, and every link that is passed is
told, so that it can be looked at after the run. Nothing is opened through a link.

What cannot be read is no reason to believe that it leads nowhere: a guest may hold a lease on it, or have shut the directory.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from sandbox_native import mandatory
from sandbox_native.mandatory import GIT, join
from sandbox_native.paths import contains
from sandbox_native.snapshots import DEEPEST, State, UnreadError, look, shortened

_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_POINTER_BYTES: Final = 4096  # of a .git file or commondir: git takes none that is longer than a path
_LINKS: Final = 40  # on one way, as the kernel has it
_LONGEST: Final = 4095  # path that one call takes
_DEEPEST: Final = DEEPEST - 4  # what is denied there lies deeper still
_GONE: Final = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)


@dataclass(frozen=True, slots=True)
class Place:
    fd: int
    host: str
    passed: set[str] = field(default_factory=set)
    """Links that were on the way so far, relative to the root."""

    def follow(self, path: str) -> str | None:
        """Where a path beneath the root leads, relative to the root; None when that is not beneath it. Nothing of it needs to be
        there. UnreadError when something on the way cannot be looked at."""
        waiting, done, left = path.split("/")[::-1], list[str](), _LINKS
        while waiting:
            part = waiting.pop()
            if part in ("", "."):
                continue
            if part == "..":
                if not done:
                    return None
                done.pop()
                continue
            state = self._look("/".join((*done, part)))
            if state is None or state.kind != "link" or not left:
                done.append(part)
                if len(done) > _DEEPEST:
                    raise UnreadError(shortened(path), f"it leads more than {_DEEPEST} directories deep")
                continue
            left -= 1
            self.passed.add("/".join((*done, part)))
            if not state.text.startswith("/"):
                waiting += state.text.split("/")[::-1]
            elif contains(self.host, os.path.normpath(state.text)):
                waiting += os.path.normpath(state.text)[len(self.host) :].split("/")[::-1]
                done.clear()
            else:
                return None
        return "/".join(done)

    def _look(self, path: str) -> State | None:
        if len(os.fsencode(path)) > _LONGEST:
            raise UnreadError(shortened(path), os.strerror(errno.ENAMETOOLONG))
        try:
            return look(self.fd, path)
        except OSError as error:
            raise _unread(path, error) from error

    def pointer(self, path: str, key: str) -> str | None:
        """What a file of git's points to, as `follow` says it; None when it is no such file. `key` is what comes first in
        it. UnreadError when nobody can tell."""
        try:
            fd = os.open(path, _READ, dir_fd=self.fd)
        except OSError as error:
            if error.errno in _GONE:
                return None
            raise _unread(path, error) from error
        try:
            text = os.read(fd, _POINTER_BYTES + 1) if stat.S_ISREG(os.fstat(fd).st_mode) else b""
        except OSError as error:
            raise _unread(path, error) from error
        finally:
            os.close(fd)
        word = os.fsdecode(text.split(b"\n", 1)[0]).rstrip("\r")
        if not word.startswith(key) or "\0" in word or len(word) > _POINTER_BYTES:
            return None
        try:
            return self.led(path.rpartition("/")[0], word[len(key) :].strip())
        except UnreadError as error:
            raise UnreadError(path, f"what it points to: {error.reason}") from error

    def led(self, directory: str, text: str) -> str | None:
        """Where `text` leads from a directory beneath the root."""
        if not text.startswith("/"):
            return self.follow(join(directory, text))
        plain = os.path.normpath(text)
        return self.follow(plain[len(self.host) :]) if contains(self.host, plain) else None


def _unread(path: str, error: OSError) -> Exception:
    """Where the host has no descriptors left, nothing can be said of the file."""
    return error if error.errno in (errno.EMFILE, errno.ENFILE) else UnreadError(path, os.strerror(error.errno or 0))


class Leads:
    """What else is denied, since something that is leads there."""

    def __init__(self, place: Place, before: Mapping[str, State]) -> None:
        self._place, self._before = place, before

    def of(self, names: Iterable[str]) -> set[str]:
        wanted = list(names)
        links = {path for path, state in self._before.items() if state.kind == "link"}
        found: set[str] = set()
        for name in wanted if links else ():
            if any(contains(link, name) for link in links):
                found.add(self._place.follow(name) or name)
        for path in dict.fromkeys(name.rpartition("/")[0] for name in wanted):
            found.update(self._git(path))
        return found

    def _git(self, path: str) -> Iterator[str]:
        """Of a directory that something denied is in: it may be a worktree's .git file, or have a commondir."""
        state = self._before.get(path)
        if state is not None and state.kind == "file" and path.rpartition("/")[2] == GIT:
            yield path
            yield from self._denied(self._place.pointer(path, "gitdir:"))
        pointer = self._before.get(join(path, "commondir"))
        if pointer is not None and pointer.kind == "file":
            yield from self._denied(self._place.pointer(join(path, "commondir"), ""))

    def _denied(self, directory: str | None) -> Iterator[str]:
        if directory:
            yield from mandatory.of_git(directory)
