"""Where compiled programs are kept between runs: a cache on disk, shared by processes, bounded in size. Host process.

Called by compiling.py. Two things are kept:

    results/KEY      what a compilation gave: a record (JSON), by a key made of everything that went into it
    programs/NAME    a program: a directory of read-only files, by its content; shown to boxes as a whole
    index/NAME       one file for each program: its size is the program's, its time that of the last use, its lock a lease
    turns/NN         locks, so that two processes do not compile the same thing at once
    staging/         what is being written, each in a directory that its writer has locked
    room, secret     how many bytes are taken; 32 random bytes

Guests see programs/ and may read in it only what they can name: the directory cannot be listed, and NAME is a keyed digest (HMAC
with `secret`) of the content, which nobody can compute who has not the secret and all of the content.

Whoever is killed at any moment leaves at most something that nobody refers to, and the next look for room takes it away: a
program appears by rename, with its file in index/ before it, a record after its program, and both are believed only when their
digests are right. Nothing is synced: after a power failure what lost its content is compiled again. room.py keeps the bound.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import hmac
import os
import secrets
import stat
from collections.abc import Iterator, Mapping
from typing import Final

from sandbox_native.errors import PolicyError
from sandbox_native.judge.room import BLOCK, OPEN, Room, StoreError, blocks, locked
from sandbox_native.judge.sealed import is_sealed, read_tree, remove_tree, seal, write_file, write_tree
from sandbox_native.paths import contains
from sandbox_native.rules import SYSTEM

__all__ = ["DEFAULT_BYTES", "Lease", "Store", "StoreError"]

DEFAULT_BYTES: Final = 1 << 30
_LEAST_BYTES: Final = 1 << 20
_UNLISTABLE: Final = 0o311
_SECRET_BYTES: Final = 32


class Lease:
    """Keeps a program from being taken away, as long as this object lives in some process (a fork's copy counts). Pickled, it is
    taken anew where it arrives: StoreError when the program is gone by then."""

    def __init__(self, store: str, name: str, fd: int) -> None:
        self.store, self.name, self._fd = store, name, fd

    @classmethod
    def again(cls, store: str, name: str) -> Lease:
        lease = Store(store).lease(name)
        if lease is None:
            raise StoreError("a program is there no more", f"{store}/programs/{name}", "compile it again")
        return lease

    def close(self) -> None:
        """Harmless when repeated."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def __del__(self) -> None:
        self.close()

    def __reduce__(self) -> tuple[object, ...]:
        return (Lease.again, (self.store, self.name))


class Store:
    """A directory of compiled programs. Any number of processes and threads may use one at once.

    `max_bytes`: programs and records together, in whole blocks of 4 KiB; at least 1 MiB. Several users of one directory may give
    different bounds: each keeps to its own when it adds something.
    `StoreError`: the directory cannot be made, belongs to somebody else, or lies in what every box sees.
    """

    def __init__(self, root: str | os.PathLike[str] | None = None, *, max_bytes: int = DEFAULT_BYTES) -> None:
        if isinstance(max_bytes, bool) or not isinstance(max_bytes, int) or max_bytes < _LEAST_BYTES:
            raise PolicyError("not a size", field="max_bytes", value=max_bytes, remedy=f"give at least {_LEAST_BYTES} bytes")
        self.root = os.path.abspath(_default_root() if root is None else os.fspath(root))
        self.max_bytes, self._room = max_bytes, Room(self.root, max_bytes)
        try:
            self._make()
        except StoreError:
            raise
        except OSError as error:
            remedy = "give another directory (store=, or XDG_CACHE_HOME)"
            raise StoreError(f"cannot be made: {os.strerror(error.errno or 0)}", self.root, remedy) from error

    def _make(self) -> None:
        real = os.path.realpath(self.root)
        seen = next((path for path in SYSTEM if contains(os.path.realpath(path), real)), None)
        if seen is not None:
            raise StoreError(f"lies in {seen}, which every box sees", self.root, "give a directory elsewhere")
        os.makedirs(self.root, mode=0o700, exist_ok=True)
        owner = os.stat(self.root).st_uid
        if owner != os.geteuid():
            reason = f"belongs to uid {owner}, who could put programs of its own there"
            raise StoreError(reason, self.root, "give a directory of yours")
        for name in ("results", "index", "turns", "staging", "programs"):
            path = self._path(name)
            with contextlib.suppress(FileExistsError):
                os.mkdir(path, 0o700)
            mode = _UNLISTABLE if name == "programs" else 0o700
            if stat.S_IMODE(os.stat(path).st_mode) != mode:
                os.chmod(path, mode)
        self._secret = self._shared_secret()

    def _shared_secret(self) -> bytes:
        path = self._path("secret")
        if not os.path.exists(path):
            with self._room.staged(0) as place:
                write_file(f"{place}/secret", secrets.token_bytes(_SECRET_BYTES), 0o400, sync=True)
                with contextlib.suppress(FileExistsError):
                    os.link(f"{place}/secret", path)  # whole or not at all, and the first one stays
        with open(path, "rb") as file:
            secret = file.read()
        if len(secret) != _SECRET_BYTES:
            raise StoreError("is damaged", path, f"remove {self.root}")
        return secret

    @property
    def programs(self) -> str:
        """The directory to show to boxes; each program is in it by the name that its Lease has."""
        return self._path("programs")

    def _path(self, *names: str) -> str:
        return os.path.join(self.root, *names)

    @contextlib.contextmanager
    def turn(self, key: str) -> Iterator[None]:
        """Others who want their turn with the same key wait."""
        number = int.from_bytes(hashlib.sha256(key.encode()).digest()[:1], "big")
        with locked(self._path("turns", f"{number:02x}")):
            yield

    def record(self, key: str) -> bytes | None:
        """What was kept by that key; None when nothing was, or it is damaged."""
        path = self._path("results", key)
        try:
            with open(path, "rb") as file:
                digest, _, content = file.read().partition(b"\n")
        except FileNotFoundError:
            return None
        if _digest(content) != digest:
            return None
        _touch(path)
        return content

    def keep_record(self, key: str, content: bytes) -> None:
        """Replaces what was kept by that key. StoreError: there is no room, since all is in use."""
        data = _digest(content) + b"\n" + content
        with self._room.staged(blocks(len(data))) as place:
            write_file(f"{place}/record", data, 0o600)
            os.rename(f"{place}/record", self._path("results", key))

    def keep(self, files: Mapping[str, bytes]) -> Lease:
        """A program of these files (relative names), sealed; the one that is there already when it is the same. What begins as a
        program or a script does can be executed.

        StoreError: it is larger than the bound, or everything else is in use.
        """
        name = self._name(files)
        lease = self.lease(name)
        if lease is not None:
            return lease
        size = BLOCK + sum(blocks(len(data)) for data in files.values())
        with self._room.staged(size) as place:
            write_tree(f"{place}/program", files)
            with self._room.lock():
                return self._publish(f"{place}/program", name, size)

    def lease(self, name: str) -> Lease | None:
        """The program of that name, if it is there and what it was when it was sealed."""
        index, place = self._path("index", name), self._path("programs", name)
        if not is_sealed(place):
            return None
        try:
            fd = os.open(index, OPEN)
        except FileNotFoundError:
            return None
        lease = Lease(self.root, name, fd)
        fcntl.flock(fd, fcntl.LOCK_SH)  # who takes it away holds it for a moment only
        if os.fstat(fd).st_nlink == 0 or self._name(read_tree(place)) != name:
            lease.close()
            return None
        _touch(index)
        return lease

    def _name(self, files: Mapping[str, bytes]) -> str:
        whole = hmac.new(self._secret, digestmod=hashlib.sha256)
        for name, data in sorted(files.items()):
            encoded = os.fsencode(name)
            whole.update(len(encoded).to_bytes(8, "big") + encoded + len(data).to_bytes(8, "big"))
            whole.update(data)
        return whole.hexdigest()

    def _publish(self, place: str, name: str, size: int) -> Lease:
        """Under the lock of room."""
        target = self._path("programs", name)
        fd = os.open(self._path("index", name), OPEN | os.O_CREAT, 0o600)
        lease = Lease(self.root, name, fd)
        fcntl.flock(fd, fcntl.LOCK_SH)
        os.ftruncate(fd, size)
        _touch(self._path("index", name))
        if not is_sealed(target) or self._name(read_tree(target)) != name:
            remove_tree(target)  # damaged, or its writer was killed
            os.rename(place, target)
            seal(target)
        return lease


def _default_root() -> str:
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return os.path.join(cache, "sandbox-native", "judge")


def _digest(content: bytes) -> bytes:
    return hashlib.sha256(content).hexdigest().encode()


def _touch(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):  # somebody made room
        os.utime(path)
