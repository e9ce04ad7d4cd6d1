"""Lower and upper layers for the tests of sandbox_native.commit: made by hand, as a kernel leaves them, or by a real overlay."""

from __future__ import annotations

import ctypes
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import scope
from boxes import checked

from sandbox_native import Policy
from sandbox_native.commit.listing import Listing
from sandbox_native.commit.overlay import Overlay
from sandbox_native.commit.protected import protected

CLONE_NEWNS, CLONE_NEWUSER, MS_REC, MS_PRIVATE = 0x20000, 0x10000000, 0x4000, 0x40000
MS_RDONLY, MS_REMOUNT = 1, 32


@dataclass
class Layers:
    """`lower` is the host's directory, `upper` what a guest changed."""

    lower: Path
    upper: Path
    policy: Policy = field(default_factory=Policy.strict)

    @classmethod
    def beneath(cls, directory: Path) -> Layers:
        made = cls(directory / "host", directory / "changes" / "upper")
        made.lower.mkdir()
        made.upper.mkdir(parents=True)
        return made

    def remove(self, path: str) -> None:
        """As the kernel writes down that a name is removed."""
        target = self.upper / path
        target.parent.mkdir(parents=True, exist_ok=True)
        os.mknod(target, stat.S_IFCHR)

    def write(self, path: str, text: str = "", mode: int = 0o644) -> Path:
        """A file in the upper layer."""
        return write(self.upper / path, text, mode)

    def host(self, path: str, text: str = "", mode: int = 0o644) -> Path:
        """A file in the lower layer."""
        return write(self.lower / path, text, mode)

    @contextmanager
    def overlay(self) -> Iterator[Overlay]:
        fds = [os.open(path, os.O_RDONLY | os.O_DIRECTORY) for path in (self.upper, self.lower)]
        try:
            yield Overlay(
                upper=fds[0],
                target=fds[1],
                inside="/workspace",
                host=str(self.lower),
                owner=(os.geteuid(), os.getegid()),
                protected=partial(protected, self.policy, "/workspace"),
            )
        finally:
            for fd in fds:
                os.close(fd)

    def look(self) -> Listing:
        listing = Listing()
        with self.overlay() as overlay:
            overlay.look(listing)
        return listing

    def commit(self) -> Listing:
        listing = Listing()
        with self.overlay() as overlay:
            overlay.commit(listing)
        return listing


def write(path: Path, text: str, mode: int = 0o644) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)
    return path


def opaque(directory: Path) -> Path:
    """A directory in the upper layer that replaces the lower one."""
    directory.mkdir(parents=True, exist_ok=True)
    os.setxattr(directory, "user.overlay.opaque", b"y")
    return directory


def refused(listing: Listing) -> dict[str, str]:
    """Path -> reason."""
    return {denial.name.removeprefix("/workspace/"): denial.reason for denial in listing.denials()}


def paths(listing: Listing) -> dict[str, list[str]]:
    return {name: [change.path for change in getattr(listing, name)] for name in ("added", "modified", "deleted")}


def snapshot(top: Path, times: bool = True) -> dict[str, object]:
    """All that counts of a tree: kind, mode, content, and the times of files; hard links as groups."""
    found: dict[str, object] = {}
    inodes: dict[int, str] = {}
    for directory, names, files in os.walk(top):
        for name in sorted(names + files):
            path = Path(directory, name)
            status = path.lstat()
            relative = str(path.relative_to(top))
            facts: list[object] = [stat.filemode(status.st_mode)]
            if path.is_symlink():
                facts.append(os.readlink(path))
            elif stat.S_ISREG(status.st_mode):
                facts += [path.read_bytes(), status.st_mtime_ns if times else 0]
                if status.st_nlink > 1:
                    facts.append(inodes.setdefault(status.st_ino, relative))
            found[relative] = facts
    return found


# ---- real ones ----


def in_a_namespace(work: Callable[[], None]) -> None:
    """`work` in a forked process that may mount; it must not raise."""

    def entered() -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        uid, gid = os.geteuid(), os.getegid()
        checked(libc.unshare(CLONE_NEWNS | (0 if uid == 0 else CLONE_NEWUSER)))
        if uid != 0:
            Path("/proc/self/setgroups").write_text("deny")
            Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1")
            Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1")
        checked(libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None))
        work()

    scope.succeeds(entered)


@contextmanager
def mounted(layers: Layers, at: Path) -> Iterator[Path]:
    """The overlay of both, at a new directory; for a process `in_a_namespace`."""
    libc = ctypes.CDLL(None, use_errno=True)
    workdir = layers.upper.parent / "work"
    for path in (at, workdir):
        path.mkdir(exist_ok=True)
    options = f"index=off,userxattr,lowerdir={layers.lower},upperdir={layers.upper},workdir={workdir}"
    checked(libc.mount(b"overlay", bytes(at), b"overlay", 0, options.encode()))
    try:
        yield at
    finally:
        checked(libc.umount2(bytes(at), 2))


def tmpfs(at: Path, size: str = "256m", flags: int = 0) -> None:
    """For a process `in_a_namespace`. `flags` of mount(2): with MS_REMOUNT of one that is there."""
    at.mkdir(exist_ok=True)
    checked(ctypes.CDLL(None, use_errno=True).mount(b"tmpfs", bytes(at), b"tmpfs", flags, f"size={size}".encode()))
