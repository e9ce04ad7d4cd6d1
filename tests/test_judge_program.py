"""Programs in boxes: a guest has its own, and no way to another one of the same store."""

from __future__ import annotations

import os
import pickle
import textwrap
from pathlib import Path

import boxes
import pytest

from sandbox_native import Limits, Sandbox, Status
from sandbox_native.judge.languages import builtin
from sandbox_native.judge.program import Program
from sandbox_native.judge.store import Store, StoreError

MIB = 1 << 20
LIMITS = Limits(wall_seconds=60, memory_bytes=128 * MIB, processes=4, address_space_bytes=256 * MIB)
SPY = textwrap.dedent(
    """
    import ctypes, errno, os, sys
    def attempt(name, what):
        try: print(name, what())
        except OSError as error: print(name, errno.errorcode[error.errno])
    inotify = lambda: -1 if ctypes.CDLL(None, use_errno=True).inotify_add_watch(
        ctypes.CDLL(None).inotify_init(), b"/programs", 0x100) < 0 else 0
    attempt("own", lambda: open(__file__).read() == open(sys.argv[0]).read())
    attempt("list", lambda: os.listdir("/programs"))
    attempt("list through its own", lambda: os.listdir(os.path.dirname(__file__) + "/.."))
    attempt("open", lambda: os.open("/programs", os.O_RDONLY))
    attempt("watch", inotify)
    attempt("mode", lambda: os.chmod("/programs", 0o777))
    attempt("guess", lambda: os.listdir("/programs/" + "0" * 64))
    attempt("write", lambda: open(__file__, "a"))
    attempt("remove", lambda: os.unlink(__file__))
    attempt("add", lambda: os.mkdir("/programs/mine"))
    attempt("records", lambda: os.listdir("/programs/../results"))
    """
)
REFUSED = {
    "own True",
    "list EACCES",
    "list through its own EACCES",
    "open EACCES",
    "watch -1",
    "mode EROFS",
    "guess ENOENT",
    "write EACCES",
    "remove EROFS",
    "add EROFS",
    "records ENOENT",
}


def python(store: Store, text: str) -> Program:
    lease = store.keep({"main.py": text.encode()})
    return Program(language=builtin()["python"], name=lease.name, store=store.programs, entry="main.py", lease=lease)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


def spied(store: Store) -> set[str]:
    """What a guest finds out of another program in the same store."""
    other, spy = python(store, "print('the answer')"), python(store, SPY)
    with Sandbox(spy.policy()) as box:
        seen = box.run(spy.argv(LIMITS), limits=spy.limits(LIMITS))
        assert box.run(other.argv(LIMITS)).text == "the answer\n"
    assert seen.status is Status.OK, seen
    return set(seen.text.splitlines())


@pytest.mark.kernel
@pytest.mark.needs("userns")
def test_a_guest_reaches_no_other_program_of_the_store(store: Store) -> None:
    assert spied(store) == REFUSED


@pytest.mark.kernel
@pytest.mark.needs("userns", "root")
def test_nor_does_one_that_has_the_users_own_identity(tmp_path: Path) -> None:
    """A plain user's guests are that user: the owner of the store."""
    tmp_path.chmod(0o755)
    for above in tmp_path.parents[:2]:
        above.chmod(0o755)
    (tmp_path / "plain").mkdir()
    os.chown(tmp_path / "plain", boxes.PLAIN_USER, boxes.PLAIN_USER)

    def as_user() -> None:
        boxes.become_plain()
        assert spied(Store(tmp_path / "plain" / "store")) == REFUSED

    boxes.in_a_host(as_user)


def test_programs_of_a_language_share_a_policy(store: Store) -> None:
    first, second = python(store, "1"), python(store, "2")
    assert first.policy() == second.policy() and first.directory != second.directory
    assert (store.programs, "/programs") in first.policy(readable=["/srv"]).readable
    assert first.policy().deterministic and not first.policy(deterministic=False).deterministic


def test_a_program_added_later_is_seen_by_a_box_that_stands_ready(store: Store) -> None:
    with Sandbox(python(store, "1").policy(), prepared=2) as box:
        assert box.run(["true"]).ok
        late = python(store, "print('late')")
        assert box.run(late.argv(LIMITS)).text == "late\n"


def test_a_program_can_be_pickled_and_keeps_its_files(store: Store) -> None:
    program = python(store, "print(1)")
    again = pickle.loads(pickle.dumps(program))
    assert again == program and os.path.exists(f"{again.host_directory}/main.py")
    data = pickle.dumps(program)
    del program, again
    os.utime(f"{store.root}/index/{os.listdir(store.root + '/index')[0]}", (0, 0))
    small = Store(store.root, max_bytes=MIB)
    for number in range(4):
        small.keep({"main": bytes([number]) * (MIB // 3)})
    with pytest.raises(StoreError, match="compile it again"):
        pickle.loads(data)


def test_run_times_are_told_of_the_limits(store: Store) -> None:
    lease = store.keep({"a.js": b""})
    program = Program(language=builtin()["javascript"], name=lease.name, store=store.programs, entry="a.js", lease=lease)
    limits = Limits(memory_bytes=100 * MIB, processes=1, stack_bytes=32 * MIB, address_space_bytes=MIB, cpu_seconds=1)
    argv = program.argv(limits, ["x"])
    assert argv == ("node", "--max-old-space-size=100", "--stack-size=32704", f"/programs/{lease.name}/a.js", "x")
    given = program.limits(limits)
    assert (given.memory_bytes, given.processes, given.address_space_bytes) == (164 * MIB, 64, None)
    assert python(store, "").limits(limits) == limits


def test_a_failed_run_that_lacked_memory_is_told_by_its_last_words(store: Store) -> None:
    program = python(store, "bytearray(1 << 40)")
    with Sandbox(program.policy()) as box:
        refused = box.run(program.argv(LIMITS), limits=program.limits(LIMITS))
        other = box.run(python(store, "raise ValueError('no MemoryError')").argv(LIMITS))
        fine = box.run(python(store, "import sys; print('MemoryError', file=sys.stderr)").argv(LIMITS))
    assert refused.status is Status.NONZERO_EXIT and program.lacked_memory(refused)
    assert other.status is Status.NONZERO_EXIT and not program.lacked_memory(other)
    assert fine.ok and not program.lacked_memory(fine)
