"""`Deletion.DENY`, call by call, wherever a guest can write: nothing goes and nothing moves, the rest works."""

from __future__ import annotations

import errno
import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import boxes
import pytest
from boxes import SHOWN, Guests
from running import sh

from sandbox_native import Deletion, Policy, Result, Sandbox, Status, Writes

pytestmark = [pytest.mark.kernel, pytest.mark.needs("userns"), pytest.mark.needs("landlock")]
Box = Callable[[str], dict[str, list[int]]]
EACCES, EXDEV = errno.EACCES, errno.EXDEV

# Before each: files a, b and e/f, an empty directory d.
REMOVALS = {
    "unlink a": {EACCES},
    "unlinkat a": {EACCES},
    "rmdir d": {EACCES},
    "rmdirat d": {EACCES},
    "rename a new": {EACCES},
    "rename a b": {EACCES},
    "renameat a b": {EACCES},
    "rename a d/a": {EACCES, EXDEV},
    "rename e/f f": {EACCES, EXDEV},
    "rename d new": {EACCES},
    "rename d e/d": {EACCES, EXDEV},
    "exchange a b": {EACCES},
    "exchange a e/f": {EACCES, EXDEV},
    "noreplace a new": {EACCES},
    "noreplace a d/new": {EACCES, EXDEV},
    "whiteout a new": {EACCES, errno.EINVAL},
    "link a d/a": {EACCES, EXDEV},
    "link e/f f": {EACCES, EXDEV},
    "tmpfile d new": {EACCES, EXDEV},
    "tmpfile . a": {errno.EEXIST, EXDEV, EACCES},
    "rename a /tmp/a": {EXDEV, EACCES},
    "rename /tmp/mine a": {EXDEV, EACCES},
}
CHANGES = (
    *("make new", "dir new2", "fifo new3", "symlink text new4", "socket new5", "make d/new", "link a new6"),
    *("append a", "open-truncate a", "truncate b", "append e/f", "punch e/f"),
)
KINDS = ("private", "workspace", "root", "overlay", "overlaid root")


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest, needs: Callable[[str], None]) -> str:
    found: str = request.param
    if found.startswith("overlay"):
        needs("changes")
    return found


@pytest.fixture
def directory() -> Iterator[Path]:
    """Where any user can come to."""
    with tempfile.TemporaryDirectory(prefix="deletion-") as name:
        made = Path(name)
        made.chmod(0o755)
        for one in ("d", "e"):
            (made / one).mkdir()
        for one in ("a", "b", "e/f"):
            (made / one).write_text(one)
        yield made


class Place:
    """Runs `removals` where a kind of place is writable, its files as they were before."""

    def __init__(self, kind: str, directory: Path, guests: Guests, deletion: Deletion, preset: str = "strict") -> None:
        self.kind, self.directory = kind, directory
        shown = [*boxes.shown(guests), (str(guests["removals"]), f"{SHOWN}/removals")]
        writable = [(str(directory), "/data")] if kind.endswith("root") else []
        writes = Writes.COMMIT if kind.startswith("overla") else Writes.DIRECT
        make = Policy.light if preset == "light" else Policy.strict
        self.box = Sandbox(make(readable=shown, writable=writable, deletion=deletion, writes=writes))

    def run(self, argv: list[str]) -> Result:
        workspace = self.directory if self.kind in ("workspace", "overlay") else None
        inside = "/data" if self.kind.endswith("root") else "/workspace"
        return self.box.run(argv, workspace=workspace, cwd=inside)

    def told(self, *steps: str, first: str = "") -> dict[str, int]:
        before = f"{first} mkdir -p d e; for n in a b e/f; do [ -e $n ] || echo $n > $n; done; echo mine > /tmp/mine"
        words = " , ".join(steps)
        result = self.run(sh(f"{before}; exec {SHOWN}/removals {words}"))
        assert result.status is Status.OK, (result.status, result.stderr)
        lines = result.text.splitlines()
        assert len(lines) == len(steps), lines
        return {step: int(line.rsplit("errno=", 1)[1]) for step, line in zip(steps, lines, strict=True)}


@pytest.fixture
def place(kind: str, directory: Path, guest: Guests) -> Iterator[Callable[..., Place]]:
    with ExitStack() as stack:

        def make(deletion: Deletion = Deletion.DENY, preset: str = "strict") -> Place:
            made = Place(kind, directory, guest, deletion, preset)
            stack.enter_context(made.box)
            return made

        yield make


def tree(directory: Path) -> dict[str, int]:
    found = {str(path.relative_to(directory)): stat.S_IFMT(path.lstat().st_mode) for path in directory.rglob("*")}
    return found


@pytest.mark.parametrize("preset", ["strict", "light"])
def test_nothing_is_removed_or_moved(place: Callable[..., Place], directory: Path, preset: str) -> None:
    before = tree(directory)
    told = place(preset=preset).told(*REMOVALS)
    assert {step: error for step, error in told.items() if error not in REMOVALS[step]} == {}
    assert tree(directory) == before
    assert (directory / "a").read_text() == "a" and (directory / "e/f").read_text() == "e/f"


def test_the_same_calls_work_where_deletion_is_allowed(place: Callable[..., Place]) -> None:
    """So that it is the policy that refuses them."""
    allowed = place(Deletion.ALLOW)
    ordinary = [step for step in REMOVALS if not step.startswith(("whiteout", "tmpfile . a")) and "/tmp/" not in step]
    for step in ordinary:
        assert allowed.told(step, first="rm -rf *;") == {step: 0}, step


@pytest.mark.parametrize("preset", ["strict", "light"])
def test_making_writing_and_cutting_work(place: Callable[..., Place], preset: str) -> None:
    told = place(preset=preset).told(*CHANGES)
    assert {step: error for step, error in told.items() if error} == {}


def test_what_the_guest_starts_may_not_either(place: Callable[..., Place]) -> None:
    denied = place()
    for command in ("rm -f a", "mv a new", "rmdir d", "sed -i s/a/x/ a", "setsid -w rm -f a", "perl -e 'unlink(q(a)) or die'"):
        result = denied.run(sh(f"mkdir -p d; [ -e a ] || echo a > a; {command} || exit 7; exit 8"))
        assert result.exit_code == 7, (command, result.exit_code, result.stderr)


def test_the_boxs_own_scratch_places_are_free(place: Callable[..., Place]) -> None:
    steps = [
        step.format(top)
        for top in ("/tmp", "/home/guest", "/dev/shm")
        for step in (
            "dir {0}/one",
            "dir {0}/two",
            "make {0}/one/f",
            "rename {0}/one/f {0}/two/f",
            "unlink {0}/two/f",
            "rmdir {0}/one",
        )
    ]
    told = place().told(*steps)
    assert {step: error for step, error in told.items() if error} == {}


@pytest.mark.parametrize("top", ["/tmp", "/home/guest"])
def test_a_root_in_a_scratch_place_is_not_free(top: str, directory: Path, guest: Guests) -> None:
    """Rights add up along a path: what /tmp may do, all beneath it may."""
    shown = [(str(guest["removals"]), f"{SHOWN}/removals")]
    with Sandbox(Policy.strict(readable=shown, writable=[(str(directory), f"{top}/data")], deletion=Deletion.DENY)) as box:
        words = f"unlink {top}/data/a , rename {top}/data/a {top}/data/new , rmdir {top}/data/d , make {top}/data/new"
        told = [line.rsplit("=", 1)[1] for line in box.run([f"{SHOWN}/removals", *words.split()]).text.splitlines()]
    assert told == [str(EACCES)] * 3 + ["0"]


def test_a_root_that_is_a_file_can_be_written_and_not_removed(directory: Path, guest: Guests) -> None:
    shown = [(str(guest["removals"]), f"{SHOWN}/removals")]
    with Sandbox(Policy.strict(readable=shown, writable=[(str(directory / "a"), "/data/a")], deletion=Deletion.DENY)) as box:
        words = "append /data/a , unlink /data/a , open-truncate /data/a"
        result = box.run([f"{SHOWN}/removals", *words.split()])
    errors = [int(line.rsplit("=", 1)[1]) for line in result.text.splitlines()]
    assert errors[0] == errors[2] == 0 and errors[1] in (EACCES, errno.EBUSY, errno.EROFS)
    assert (directory / "a").read_text() == "x"


def test_the_receipt_says_so(place: Callable[..., Place]) -> None:
    result = place(preset="light").run(["/bin/true"])
    assert boxes.layer(result, "landlock").held is True
    assert boxes.layer(result, "deletion").held is True
    result = place(Deletion.ALLOW, "light").run(["/bin/true"])
    assert boxes.layer(result, "deletion").held is None


@pytest.mark.needs("root")
def test_a_plain_users_host_is_as_safe(directory: Path, guest: Guests) -> None:
    """A plain bind instead of an idmapped one."""
    for path in (directory, *directory.rglob("*")):
        os.chown(path, boxes.PLAIN_USER, boxes.PLAIN_USER)

    def work() -> None:
        boxes.become_plain()
        os.environ["SANDBOX_NATIVE_LAUNCHER"] = str(public["launcher"])
        shown = [(str(public["removals"]), f"{SHOWN}/removals")]
        with Sandbox(Policy.strict(readable=shown, deletion=Deletion.DENY)) as box:
            words = " , ".join(REMOVALS).split()
            lines = box.run([f"{SHOWN}/removals", *words], workspace=directory).text.splitlines()
        told = dict(zip(REMOVALS, (int(line.rsplit("=", 1)[1]) for line in lines), strict=True))
        wrong = {step: error for step, error in told.items() if error not in REMOVALS[step] | {errno.ENOENT}}
        assert wrong == {}

    with boxes.public(guest) as public:
        boxes.in_a_host(work)
    assert {"a", "b", "d", "e", "e/f"} == set(tree(directory))
