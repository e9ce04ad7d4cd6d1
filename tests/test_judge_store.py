"""The cache of compiled programs: what it keeps, its bound, leases, and what kills and other processes do to it."""

from __future__ import annotations

import fcntl
import functools
import os
import pickle
import signal
from collections.abc import Callable
from pathlib import Path

import boxes
import pytest
import scope
from killed import killed_at

from sandbox_native import PolicyError
from sandbox_native.judge import sealed
from sandbox_native.judge.store import Lease, Store, StoreError

MIB = 1 << 20
PROGRAM = {"main": b"\x7fELF and so on", "lib/data.txt": b"1 2 3"}


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store", max_bytes=MIB)


def content(number: int, size: int = 60_000) -> dict[str, bytes]:
    return {"main": number.to_bytes(4, "big") * (size // 4)}


def place(lease: Lease) -> Path:
    return Path(lease.store, "programs", lease.name)


def taken(store: Store) -> int:
    """What the disk gives for it."""
    root = Path(store.root)
    files = [path for kind in ("programs", "results", "staging") for path in root.joinpath(kind).rglob("*")]
    return sum(path.lstat().st_blocks * 512 for path in files)


def test_a_program_is_kept_as_read_only_files(store: Store) -> None:
    kept = place(store.keep(PROGRAM))
    assert sealed.read_tree(str(kept)) == PROGRAM
    modes = {str(path.relative_to(kept)): path.stat().st_mode & 0o777 for path in [kept, *kept.rglob("*")]}
    assert modes == {".": 0o555, "main": 0o555, "lib": 0o555, "lib/data.txt": 0o444}


def test_equal_content_is_one_program(store: Store) -> None:
    first, second, other = store.keep(PROGRAM), Store(store.root).keep(dict(reversed(PROGRAM.items()))), store.keep(content(1))
    assert first.name == second.name != other.name
    assert len(os.listdir(store.programs)) == 2


def test_a_names_end_is_no_contents_beginning(store: Store) -> None:
    assert store.keep({"ab": b"c"}).name != store.keep({"a": b"bc"}).name


def test_names_cannot_be_computed_from_the_content_alone(store: Store, tmp_path: Path) -> None:
    name = store.keep(PROGRAM).name
    assert Store(tmp_path / "other").keep(PROGRAM).name != name
    assert len(name) == 64


def test_the_directory_of_programs_cannot_be_listed_by_its_owner_either(store: Store) -> None:
    assert os.stat(store.programs).st_mode & 0o777 == 0o311
    assert all(os.stat(f"{store.root}/{name}").st_mode & 0o077 == 0 for name in os.listdir(store.root) if name != "programs")


def test_a_damaged_program_is_not_believed_and_is_replaced(store: Store) -> None:
    lease = store.keep(PROGRAM)
    for damage in (b"another program", b"", None):
        main = place(lease) / "main"
        main.parent.chmod(0o755)
        main.unlink()
        if damage is not None:
            main.write_bytes(damage)
        main.parent.chmod(0o555)
        assert store.lease(lease.name) is None
        assert store.keep(PROGRAM).name == lease.name
        assert main.read_bytes() == PROGRAM["main"]


def test_a_record_comes_back_unless_it_is_damaged(store: Store) -> None:
    assert store.record("key") is None
    store.keep_record("key", b"one")
    store.keep_record("key", b"two")
    assert Store(store.root).record("key") == b"two"
    path = Path(store.root, "results", "key")
    path.write_bytes(path.read_bytes()[:-1])
    assert store.record("key") is None


def test_the_bound_holds_and_what_was_used_last_stays(store: Store) -> None:
    favourite = store.keep(content(0)).name
    for number in range(1, 60):
        name = store.keep(content(number)).name
        store.keep_record(f"key{number}", b"x" * 5000)
        assert store.lease(favourite) is not None
        assert store.lease(name) is not None
        assert taken(store) <= MIB
    assert 5 < len(os.listdir(store.programs)) < 20
    assert sorted(os.listdir(store.programs)) == sorted(os.listdir(f"{store.root}/index"))
    assert store.record("key1") is None and store.record("key59") is not None


def test_a_leased_program_is_not_taken_away(store: Store) -> None:
    lease = store.keep(content(0))
    os.utime(f"{store.root}/index/{lease.name}", (0, 0))
    for number in range(1, 40):
        store.keep(content(number))
    assert sealed.read_tree(str(place(lease))) == content(0)
    lease.close()
    os.utime(f"{store.root}/index/{lease.name}", (0, 0))
    for number in range(40, 60):
        store.keep(content(number))
    assert not place(lease).exists()


def test_a_lease_ends_with_the_process_that_holds_it(store: Store) -> None:
    reading, writing = os.pipe()

    def hold() -> None:
        lease = store.keep(content(0))
        os.write(writing, lease.name.encode())
        signal.pause()

    holder = scope.child(hold)
    name = os.read(reading, 64).decode()
    os.close(reading)
    os.close(writing)
    os.utime(f"{store.root}/index/{name}", (0, 0))
    for number in range(1, 30):
        store.keep(content(number))
    held = os.path.exists(f"{store.programs}/{name}")
    os.kill(holder, signal.SIGKILL)
    os.waitpid(holder, 0)
    os.utime(f"{store.root}/index/{name}", (0, 0))
    for number in range(30, 60):
        store.keep(content(number))
    assert held and not os.path.exists(f"{store.programs}/{name}")


def test_when_all_is_leased_the_error_says_so(store: Store) -> None:
    leases = []
    with pytest.raises(StoreError, match=r"no room for 65536 bytes: \d+ would be in use, and 1048576 may be; give it a larger"):
        for number in range(100):
            leases.append(store.keep(content(number)))
    assert len(leases) == 16 and taken(store) <= MIB
    del leases[:]
    store.keep(content(101))


def test_what_is_larger_than_the_bound_is_refused_and_leaves_nothing(store: Store) -> None:
    with pytest.raises(StoreError, match="no room for"):
        store.keep({"main": bytes(2 * MIB)})
    assert os.listdir(f"{store.root}/staging") == os.listdir(store.programs) == []


def test_a_lease_can_be_pickled_and_says_when_the_program_is_gone(store: Store) -> None:
    lease = store.keep(PROGRAM)
    data = pickle.dumps(lease)
    again = pickle.loads(data)
    assert (again.name, again.store) == (lease.name, lease.store)
    with pytest.raises(BlockingIOError):
        lease.close()
        with open(f"{store.root}/index/{lease.name}", "rb+") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    sealed.remove_tree(str(place(lease)))
    with pytest.raises(StoreError, match="a program is there no more; compile it again"):
        pickle.loads(data)


def test_errors_can_be_pickled() -> None:
    error = StoreError("no room", "/store", "make some")
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == "/store: no room; make some"
    assert (again.reason, again.path, again.remedy) == ("no room", "/store", "make some")


def waits_for(pid: int) -> str:
    """The file of a lock that the process waits for, if it does."""
    waiting = [line.split() for line in Path("/proc/locks").read_text().splitlines() if "->" in line]
    inodes = {fields[6].rpartition(":")[2] for fields in waiting if fields[5] == str(pid)}
    opened = Path(f"/proc/{pid}/fd").iterdir()
    return " ".join(os.readlink(fd) for fd in opened if str(os.stat(fd).st_ino) in inodes)


def test_turns_of_one_key_exclude_each_other(store: Store) -> None:
    reading, writing = os.pipe()

    def other() -> None:
        with store.turn("key"):
            os.write(writing, b"other")

    with store.turn("key"):
        pid = scope.child(other)  # a fork keeps no lock
        boxes.until(lambda: "turns" in waits_for(pid), 60, "the other one's wait")
        os.write(writing, b"first")
    os.waitpid(pid, 0)
    os.close(writing)
    with open(reading, "rb") as pipe:
        assert pipe.read() == b"firstother"


def test_a_directory_that_cannot_serve_is_refused(tmp_path: Path, needs: Callable[[str], None]) -> None:
    with pytest.raises(StoreError, match="lies in /opt, which every box sees; give a directory elsewhere"):
        Store("/opt/sandbox-native-test/store")
    assert not os.path.exists("/opt/sandbox-native-test")
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StoreError, match=r"cannot be made: Not a directory; give another directory \(store=, or XDG"):
        Store(tmp_path / "file" / "store")
    with pytest.raises(PolicyError, match="max_bytes=1000: not a size; give at least 1048576 bytes"):
        Store(tmp_path / "store", max_bytes=1000)
    (tmp_path / "short").mkdir()
    (tmp_path / "short" / "secret").write_bytes(b"")
    with pytest.raises(StoreError, match="secret: is damaged; remove"):
        Store(tmp_path / "short")
    needs("root")
    (tmp_path / "theirs").mkdir()
    os.chown(tmp_path / "theirs", boxes.PLAIN_USER, boxes.PLAIN_USER)
    with pytest.raises(StoreError, match=f"belongs to uid {boxes.PLAIN_USER}, who could put programs of its own there"):
        Store(tmp_path / "theirs")


def test_the_default_place_is_in_the_users_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert Store().root == str(tmp_path / "sandbox-native" / "judge")


LARGE = [{**content(number, 600_000), "more/deep": b"x"} for number in range(4)]


def fill(root: str) -> None:
    """Two programs, of which one has room."""
    store = Store(root, max_bytes=MIB)
    for number in range(2):
        name = store.keep(LARGE[number]).name
        store.keep_record(f"key{number}", name.encode())


def test_a_kill_at_any_moment_leaves_a_store_that_works(tmp_path: Path) -> None:
    root = str(tmp_path)
    check_after_kill(root)
    number = 0
    while killed_at(number, lambda: fill(root)):
        check_after_kill(root)
        number += 1
    assert number > 40


def test_a_kill_while_the_store_is_made_leaves_one_that_can_be_made(tmp_path: Path) -> None:
    number = 0
    while killed_at(number, functools.partial(Store, tmp_path / str(number))):
        Store(tmp_path / str(number)).keep(PROGRAM)
        number += 1
    assert number > 10


def check_after_kill(root: str) -> None:
    store = Store(root, max_bytes=MIB)
    for number in range(2):
        record = store.record(f"key{number}")
        lease = None if record is None else store.lease(record.decode())
        assert lease is None or sealed.read_tree(str(place(lease))) == LARGE[number]
        lease = None
    for files in LARGE[2:]:  # room is made
        lease = None
        lease = store.keep(files)
        assert sealed.read_tree(str(place(lease))) == files
        assert taken(store) <= MIB
    assert os.listdir(f"{root}/staging") == []
    assert sorted(os.listdir(store.programs)) == sorted(os.listdir(f"{root}/index"))


def churn(root: str, seed: int) -> None:
    store = Store(root, max_bytes=MIB)
    for turn in range(60):
        number = (turn * (seed + 1) * 7) % 23
        lease = store.keep(content(number, 40_000))
        store.keep_record(f"key{number}", lease.name.encode())
        known = store.record(f"key{(number + 1) % 23}")
        other = None if known is None else store.lease(known.decode())
        assert sealed.read_tree(str(place(lease))) == content(number, 40_000)
        if other is not None:
            assert sealed.read_tree(str(place(other))) == content((number + 1) % 23, 40_000)


def test_processes_share_a_store(tmp_path: Path) -> None:
    root = str(tmp_path / "store")
    pids = [scope.child(lambda seed=seed: churn(root, seed)) for seed in range(4)]
    statuses = [os.waitpid(pid, 0)[1] for pid in pids]
    assert statuses == [0, 0, 0, 0]
    store = Store(root, max_bytes=MIB)
    assert taken(store) <= MIB and os.listdir(f"{root}/staging") == []
    assert sorted(os.listdir(store.programs)) == sorted(os.listdir(f"{root}/index"))
