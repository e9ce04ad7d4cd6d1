"""Machines that refuse a /proc or take privileges from user namespaces: what a box is without them, or what is said instead."""

from __future__ import annotations

import errno
import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import boxes
import lacking
import pytest
from boxes import Guests
from capabilities import own_groups
from running import sh
from truth import untrue

from sandbox_native import Limits, Policy, Rung, Sandbox, Status, UnsupportedError
from sandbox_native.doctor import probed
from sandbox_native.features import Feature, launcher_path, probe
from sandbox_native.remedies import Machine

pytestmark = [pytest.mark.kernel, pytest.mark.needs("userns"), pytest.mark.needs("root")]
CONTROLLERS = ("", "memory", "pids", "cpu", "cpuacct")


@pytest.fixture(scope="module")
def public(guest: Guests) -> Iterator[Guests]:
    with boxes.public(guest) as found:
        yield found


def mask_proc() -> None:
    """As container engines do: the kernel then refuses a new /proc to everybody but root."""
    libc = boxes.own_mounts()
    for path in (b"/proc/kcore", b"/proc/timer_list", b"/proc/keys"):
        if os.path.exists(path):
            boxes.checked(libc.mount(b"/dev/null", path, None, boxes.MS_BIND, None))


@pytest.fixture
def delegated() -> Iterator[list[Path]]:
    """Groups that a plain user may write, one in each hierarchy; whoever wants to use them enters them first."""
    made = []
    for path in {path for name, path in own_groups().items() if name in CONTROLLERS}:
        group = path / f"delegated-{os.getpid()}"
        group.mkdir()
        made.append(group)
        for one in (group, *group.iterdir()):
            os.chown(one, boxes.PLAIN_USER, boxes.PLAIN_USER)
    yield made
    for group in made:
        for path, _, _ in os.walk(group, topdown=False):
            os.rmdir(path)


def a_masked_machine(public: Guests, groups: list[Path], work: Callable[[], None]) -> None:
    """`work` as a plain user with groups of its own, who does not see all of /proc."""

    def host() -> None:
        for group in groups:
            (group / "cgroup.procs").write_text(str(os.getpid()))
        mask_proc()
        boxes.become_plain()
        os.environ["SANDBOX_NATIVE_LAUNCHER"] = str(public["launcher"])
        assert probe().missing == () and not probe().works(Feature.PROC)
        work()

    boxes.in_a_host(host)


def test_a_box_has_no_proc_where_none_can_be_had_and_says_so(public: Guests, delegated: list[Path]) -> None:
    def work() -> None:
        with Sandbox(boxes.strict(public)) as box:
            result = box.run(sh("ls -A /proc; cat /proc/self/comm /proc/1/environ /proc/meminfo; exit 0"))
            layer = boxes.layer(result, "proc")
            if layer.held:
                assert "processes only" in layer.detail and untrue(box) == []
                return
            assert result.enforcement.rung is Rung.FULL
            assert layer.detail.startswith("there is none: a new one was refused here")
            assert (result.stdout, result.stderr.count(b"Permission denied")) == (b"", 4)
            assert box.run(["/usr/bin/python3", "-c", "print(1)"]).text == "1\n"
            others = [one.name for one in result.enforcement.layers if one.held is False]
            assert others == ["proc"]

    a_masked_machine(public, delegated, work)


def test_limits_hold_and_the_tree_is_counted_without_proc(public: Guests, delegated: list[Path]) -> None:
    def work() -> None:
        with Sandbox(boxes.strict(public)) as box:
            result = box.run(boxes.verbs("daemon 30000 , fork 20 , pause"), limits=Limits(wall_seconds=1))
            assert (result.status, result.killed_processes) == (Status.WALL_LIMIT, 22)
            assert boxes.tree_is_gone(boxes.SHOWN)
            assert box.run(boxes.verbs("eat 400 , pause"), limits=Limits(memory_bytes=64 << 20)).status is Status.MEMORY_LIMIT
            assert box.run(boxes.verbs("spin 0"), limits=Limits(cpu_seconds=0.1)).status is Status.CPU_LIMIT

    a_masked_machine(public, delegated, work)


def test_without_proc_and_without_a_group_nothing_runs(public: Guests) -> None:
    """Memory would be watched in /proc."""

    def work() -> None:
        if not probe().has_proc:
            with pytest.raises(UnsupportedError) as caught:
                Sandbox(Policy.strict())
            (missing,) = caught.value.missing
            assert missing.startswith("a new /proc for each box, or a control group")
            assert "systempaths=unconfined" in caught.value.remedy

    a_masked_machine(public, [], work)


# ---- AppArmor's restriction of user namespaces ----


def restrict() -> None:
    """The switch of Ubuntu's, as this process sees /proc/sys."""
    libc = boxes.own_mounts()
    boxes.checked(libc.mount(b"none", b"/proc/sys/kernel", b"tmpfs", 0, None))
    Path("/proc/sys/kernel/apparmor_restrict_unprivileged_userns").write_text("1\n")


@pytest.fixture
def place() -> Iterator[Path]:
    directory = Path(tempfile.mkdtemp(prefix="refused-"))  # tmp_path is its user's alone
    directory.chmod(0o755)
    yield directory
    shutil.rmtree(directory)


@pytest.mark.needs("cc")
@pytest.mark.parametrize("error", [errno.EPERM, errno.EACCES])
def test_a_user_namespace_without_privileges_is_told_with_the_profile_to_install(public: Guests, place: Path, error: int) -> None:
    program = lacking.build(place, public["launcher"], "mount", error)  # user namespaces can be made

    def host() -> None:
        restrict()
        boxes.become_plain()
        os.environ["SANDBOX_NATIVE_LAUNCHER"] = str(program)
        with pytest.raises(UnsupportedError) as caught:
            Sandbox(Policy.strict())
        (missing,) = caught.value.missing
        assert missing.startswith("a mount namespace") and "kernel.apparmor_restrict_unprivileged_userns is 1" in missing
        check_profile(caught.value.remedy, program)
        (finding,) = [one for one in probed(probe(), Machine.here(launcher_path())) if one.name == "mount"]
        assert not finding.works and "AppArmor leaves user namespaces without privileges" in finding.detail
        check_profile(finding.remedy, program)

    boxes.in_a_host(host)


def check_profile(command: str, program: Path) -> None:
    """Pasted into a shell it writes a profile for this launcher, and loads it."""
    parts = command.split(" && ")
    writing, _, place = parts[0].partition(" | sudo tee ")
    text = subprocess.run(["/bin/sh", "-c", writing], capture_output=True, text=True, check=True).stdout
    assert f'profile sandbox-native "{program}" flags=(unconfined) {{\n  userns,\n}}\n' in text
    assert shlex.split(place)[0] == "/etc/apparmor.d/sandbox-native"
    assert parts[1].startswith("sudo apparmor_parser -r /etc/apparmor.d/sandbox-native")


@pytest.mark.needs("cc")
def test_root_is_not_told_of_a_restriction_of_plain_users(public: Guests, place: Path) -> None:
    program = lacking.build(place, public["launcher"], "mount", errno.EPERM)

    def host() -> None:
        restrict()
        os.environ["SANDBOX_NATIVE_LAUNCHER"] = str(program)
        with pytest.raises(UnsupportedError) as caught:
            Sandbox(Policy.strict())
        assert "AppArmor" not in str(caught.value) and "apparmor_parser" not in caught.value.remedy

    boxes.in_a_host(host)
