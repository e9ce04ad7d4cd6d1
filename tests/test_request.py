"""The request's body: order, counts, alignment, and that nothing which no process can have gets into it."""

from __future__ import annotations

import errno
import struct
from dataclasses import dataclass
from pathlib import PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_native import ExecError, Limits, PolicyError
from sandbox_native.environment import BASE, Environment, candidates
from sandbox_native.limits import UNLIMITED_STACK_BYTES
from sandbox_native.request import Body, Encoder, rlimits

FILE = struct.Struct("=QII")


def strings(body: Body) -> tuple[bytes, list[bytes], list[bytes], list[bytes], bytes]:
    """cwd, candidates, argv, env, and what follows; read as the launcher does."""
    rest = body.data
    parts = []
    for _ in range(1 + body.candidates + body.argc + body.envc):
        part, _, rest = rest.partition(b"\0")
        parts.append(part)
    at = 1 + body.candidates
    return parts[0], parts[1:at], parts[at : at + body.argc], parts[at + body.argc :], rest


def records(body: Body) -> dict[bytes, tuple[int, bytes]]:
    found = {}
    at = len(body.data) - len(strings(body)[4])
    for _ in range(body.files):
        at += -at % 8
        size, name_bytes, mode = FILE.unpack_from(body.data, at)
        at += FILE.size
        name = body.data[at : at + name_bytes]
        assert name.endswith(b"\0")
        found[name[:-1]] = (mode, body.data[at + name_bytes : at + name_bytes + size])
        at += name_bytes + size
    return found


def test_order_and_counts() -> None:
    encoder = Encoder(Environment(path=("/x", "/y")))
    cwd, tried, argv, env, rest = strings(encoder.body(["prog", b"b\xff", PurePosixPath("/p")], {"A": "1"}, "/tmp"))
    assert (cwd, argv, rest) == (b"/tmp", [b"prog", b"b\xff", b"/p"], b"")
    assert tried[:3] == [b"/x/prog", b"/y/prog", b"/usr/local/bin/prog"]
    search = f"/x:/y:{BASE['PATH']}"
    assert set(env) == {f"{name}={value}".encode() for name, value in {**BASE, "PATH": search, "A": "1"}.items()}


def test_default_cwd_and_environment() -> None:
    cwd, tried, _, env, _ = strings(Encoder().body(["/bin/true"]))
    assert (cwd, tried) == (b"/workspace", [b"/bin/true"])
    assert set(env) == {f"{name}={value}".encode() for name, value in BASE.items()}
    assert {"HOME=/home/guest", "LANG=C.UTF-8", "TMPDIR=/tmp"} <= {entry.decode() for entry in env}


@pytest.mark.parametrize(
    ("program", "path", "tried"),
    [
        ("/a/b", "/x", ["/a/b"]),
        ("./b", "/x", ["./b"]),
        ("a/b", "/x", ["a/b"]),
        ("b", "/x:/y", ["/x/b", "/y/b"]),
    ],
)
def test_a_name_is_tried_in_each_directory_and_a_path_is_itself(program: str, path: str, tried: list[str]) -> None:
    assert candidates(program, path) == tried


@given(
    st.dictionaries(
        st.text(st.characters(blacklist_characters="\0", blacklist_categories=("Cs",)), min_size=1, max_size=12),
        st.binary(max_size=40),
        max_size=6,
    )
)
def test_files_come_through_whatever_they_hold(files: dict[str, bytes]) -> None:
    body = Encoder().body(["p"], files=files)
    assert body.files == len(files)
    assert {name.decode(): data for name, (_, data) in records(body).items()} == files


def test_programs_and_scripts_may_be_run() -> None:
    files = {"elf": b"\x7fELF\x02", "script": b"#!/bin/sh\n", "data": b"data", "short": b"#", "none": b""}
    modes = {name.decode(): mode for name, (mode, _) in records(Encoder().body(["p"], files=files)).items()}
    assert modes == {"elf": 0o755, "script": 0o755, "data": 0o644, "short": 0o644, "none": 0o644}


@pytest.mark.parametrize(
    ("argv", "env"),
    [
        ([], None),
        ("prog", None),
        (b"prog", None),
        ([""], None),
        (["p", "a\0b"], None),
        (["p", 3], None),
        (["p", ["unhashable"]], None),
        (["p", "\ud800"], None),
        (["p"], {"": "x"}),
        (["p"], {"A=B": "x"}),
        (["p"], {"A": "\0"}),
        (["p"], {"A\0": ""}),
        (["p"], {"A": None}),
        (["p"], {b"A": "x"}),
        (["p"], {"A": "\udfff\ud800"}),
    ],
    ids=repr,
)
def test_what_no_process_can_have_is_refused(argv: list[str], env: dict[str, str] | None) -> None:
    encoder = Encoder()
    for _ in range(2):  # also when the encoder has seen it before
        with pytest.raises(PolicyError) as caught:
            encoder.body(argv, env)
        assert caught.value.field.startswith(("argv", "env")) and caught.value.value and caught.value.remedy


def test_more_than_the_kernel_takes_is_e2big() -> None:
    with pytest.raises(ExecError) as caught:
        Encoder().body(["p", "x" * (7 << 20)])
    assert (caught.value.errno, caught.value.item) == (errno.E2BIG, "p")


def test_a_remembered_body_is_the_same_and_follows_its_arguments() -> None:
    encoder = Encoder()
    first = encoder.body(["p"], {"A": "1"})
    assert encoder.body(["p"], {"A": "1"}) is first
    assert encoder.body(["p"], {"A": "2"}) != first
    assert encoder.body(["p"], {"A": "1"}, "/tmp") != first
    env = {"A": "1"}
    encoder.body(["p"], env)
    env["A"] = "3"
    assert b"A=3" in encoder.body(["p"], env).data


def test_what_is_remembered_is_bounded() -> None:
    encoder = Encoder()
    for number in range(1000):
        encoder.body(["p", str(number)])
    encoder.body(["p", "x" * 100_000])
    assert len(encoder._known) <= 64
    assert all(len(body.data) <= 64 << 10 for body in encoder._known.values())


def test_a_path_object_is_asked_every_time() -> None:
    class Moving:
        now = "/bin/true"

        def __fspath__(self) -> str:
            return self.now

    encoder, where = Encoder(), Moving()
    assert encoder.body([where]).program == "/bin/true"
    where.now = "/bin/false"
    assert encoder.body([where]).program == "/bin/false"


def test_rlimits_follow_the_limits() -> None:
    plain = {limit.name: limit.value for limit in rlimits(Limits(), False)}
    assert plain == {"core": 1, "nofile": 256, "fsize": 64 << 20, "sigpending": 1024, "msgqueue": 256 << 10}
    more = Limits(address_space_bytes=1 << 30, stack_bytes=1 << 20, processes=5)
    assert {limit.name: limit.value for limit in rlimits(more, True)} == {
        **plain,
        "as": 1 << 30,
        "stack": 1 << 20,
        "nproc": 6,
    }
    unlimited = Limits(stack_bytes=UNLIMITED_STACK_BYTES)
    assert {limit.name: limit.value for limit in rlimits(unlimited, False)}["stack"] == (1 << 64) - 1


# ---- the program that the host finds ----


class Finder:
    """Who finds programs, as executables.ExecutableResolver does; tells how often it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, str | None]] = []
        self.fresh = True

    def find(self, program: str, cwd: str, workspace: str | None) -> Found:
        self.asked.append((program, cwd, workspace))
        return Found(self, f"/found/{program}" if "/" not in program else program, len(self.asked), program.startswith("./"))


@dataclass
class Found:
    finder: Finder
    path: str
    inode: int
    by_run: bool
    device: int = 7
    real: str = ""

    def unchanged(self) -> bool:
        return self.finder.fresh


def test_what_was_found_is_the_one_candidate() -> None:
    finder = Finder()
    body = Encoder(finder=finder).body(["prog", "x"])
    assert strings(body)[1:3] == ([b"/found/prog"], [b"prog", b"x"])
    assert body.found is not None and (body.found.device, body.found.inode) == (7, 1)


def test_a_program_is_sought_once_for_all_arguments_until_it_changes() -> None:
    finder = Finder()
    encoder = Encoder(finder=finder)
    bodies = [encoder.body(["prog", str(number % 3)]) for number in range(6)]
    assert len(finder.asked) == 1 and bodies[0] is bodies[3]
    encoder.body(["prog"], cwd="/tmp")
    assert finder.asked[1:] == [("prog", "/tmp", None)]
    finder.fresh = False
    again = encoder.body(["prog", "0"])
    assert len(finder.asked) == 3 and again.found is not None and again.found.inode == 3
    finder.fresh = True
    encoder.forget()
    encoder.body(["prog", "0"])
    assert len(finder.asked) == 4


def test_a_program_in_a_workspace_is_sought_in_each() -> None:
    finder = Finder()
    encoder = Encoder(finder=finder)
    found = [encoder.body(["./run"], workspace=place).found for place in ("/a", "/b", None, "/a", "/b", None)]
    assert [one and one.inode for one in found] == [1, 2, 3, 1, 2, 3]
    assert [place for _, _, place in finder.asked] == ["/a", "/b", None]


def test_a_refused_program_is_asked_for_again() -> None:
    class Refusing(Finder):
        def find(self, program: str, cwd: str, workspace: str | None) -> Found:
            super().find(program, cwd, workspace)
            raise ExecError("exec", errno.ENOENT, program)

    finder = Refusing()
    encoder = Encoder(finder=finder)
    for _ in range(2):
        with pytest.raises(ExecError):
            encoder.body(["prog"])
    assert len(finder.asked) == 2
