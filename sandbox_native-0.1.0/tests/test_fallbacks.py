"""The ways round what an older kernel or a stricter container lacks: one call of the launcher answers an errno, the rest is real.

Each combination ends in a true receipt or in a refusal that names what is missing.
"""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import boxes
import lacking
import pytest
from boxes import Guests
from running import sh
from truth import held, untrue

import sandbox_native as sn

pytestmark = [pytest.mark.kernel, pytest.mark.needs("userns"), pytest.mark.needs("cc")]

ERRORS = pytest.mark.parametrize("error", [errno.ENOSYS, errno.EPERM], ids=["ENOSYS", "EPERM"])
Without = Callable[..., None]
Hosted = Callable[[Callable[[], None]], None]


@pytest.fixture(scope="module")
def public(guest: Guests) -> Iterator[Guests]:
    with boxes.public(guest) as found:
        yield found


@pytest.fixture
def without(public: Guests, monkeypatch: pytest.MonkeyPatch) -> Iterator[Without]:
    """`without("clone3", errno.ENOSYS)`: launchers started from now on get that answer. `argument`: (index, mask, value), only
    where that argument has the value in the mask's bits."""
    directory = Path(tempfile.mkdtemp(prefix="without-"))  # tmp_path is its user's alone
    directory.chmod(0o755)

    def install(name: str, error: int, argument: tuple[int, int, int] = (0, 0, 0)) -> None:
        program = lacking.build(directory, public["launcher"], name, error, argument)
        monkeypatch.setenv("SANDBOX_NATIVE_LAUNCHER", str(program))

    yield install
    shutil.rmtree(directory)


@pytest.fixture(params=["root", "plain"])
def hosted(request: pytest.FixtureRequest, needs: Callable[[str], None]) -> Hosted:
    """`hosted(work)`: in a process of its own, which a hang ends."""
    if request.param == "root":
        needs("root")

    def run(work: Callable[[], None]) -> None:
        def host() -> None:
            signal.alarm(60)
            if request.param == "plain":
                boxes.become_plain()
            work()

        boxes.in_a_host(host)

    return run


# ---- every call, alone: what is lost where there is a way round, and what the refusal says where there is none ----

WAYS_ROUND: dict[str, set[str]] = {
    "clone3": set(),
    "close_range": set(),
    "mount_setattr": set(),
    "landlock_create_ruleset": {"landlock"},
    "landlock_add_rule": {"landlock"},
    "landlock_restrict_self": {"landlock"},
    "keyctl": {"keyring"},
    "fsopen": set(),  # nobody's
    "setns": set(),
}
REFUSALS = {
    "unshare": "user namespaces",
    "mount": "a mount namespace",
    "open_tree": "a mount namespace",
    "move_mount": "a mount namespace",
    "pidfd_open": "process descriptors",
    "pidfd_send_signal": "process descriptors",
    "openat2": "opening files beneath a directory",
    "seccomp": "system call filters",
    "pivot_root": "pivot",
    "umount2": "pivot",
    "sethostname": "hostname",
    "capset": "creds",
    "setsid": "session",
}


@ERRORS
@pytest.mark.parametrize("name", sorted(WAYS_ROUND))
def test_a_call_with_a_way_round_leaves_a_true_receipt(
    without: Without, hosted: Hosted, public: Guests, name: str, error: int
) -> None:
    def work() -> None:
        with sn.Sandbox(boxes.strict(public)) as sandbox:
            assert untrue(sandbox) == []
            result = sandbox.run(sh("ls /proc/self/fd; touch /usr/x /etc/x; grep -c ' /usr[ /].* ro,' /proc/self/mountinfo"))
            assert result.stdout.split() == b"0 1 2 3 1".split()  # 3 is the directory that ls reads
            assert result.stderr.count(b"Read-only file system") + result.stderr.count(b"Permission denied") == 2
            assert sandbox.run(["/bin/sleep", "30"], limits=sn.Limits(wall_seconds=0.2)).status is sn.Status.WALL_LIMIT
            layers = held(result)
        os.environ["SANDBOX_NATIVE_LAUNCHER"] = str(public["launcher"])
        with sn.Sandbox(boxes.strict(public)) as sandbox:
            expected = held(sandbox.run(["/bin/true"]))
        changed = {layer for layer, holds in expected.items() if layers[layer] is not holds}
        assert changed == {layer for layer in WAYS_ROUND[name] if expected[layer]}
        assert not any(layers[layer] for layer in changed)

    without(name, error)
    hosted(work)


@ERRORS
@pytest.mark.parametrize("name", sorted(REFUSALS))
def test_a_call_without_a_way_round_is_refused_by_name(
    without: Without, hosted: Hosted, public: Guests, name: str, error: int
) -> None:
    def work() -> None:
        with pytest.raises((sn.UnsupportedError, sn.SetupError)) as caught, sn.Sandbox(boxes.strict(public)) as sandbox:
            sandbox.run(["/bin/true"])
        refused = caught.value
        if isinstance(refused, sn.SetupError):
            assert (refused.stage, refused.errno, bool(refused.hint)) == (REFUSALS[name], error, True)
        else:
            assert len(refused.missing) == 1 and refused.missing[0].startswith(REFUSALS[name])
            assert refused.remedy

    without(name, error)
    hosted(work)


@ERRORS
def test_a_filter_without_a_listener_ends_a_call_as_well(without: Without, hosted: Hosted, public: Guests, error: int) -> None:
    def work() -> None:
        with sn.Sandbox(boxes.strict(public)) as sandbox:
            assert untrue(sandbox) == []
            result = sandbox.run([f"{boxes.SHOWN}/attempts", "x32", "0"])
            assert (result.status, result.signal) == (sn.Status.SIGNALED, signal.SIGSYS)
            assert "SIGSYS" in boxes.layer(result, "seccomp").detail

    without("seccomp", error, (1, 8, 8))  # SECCOMP_FILTER_FLAG_NEW_LISTENER
    hosted(work)


@ERRORS
@pytest.mark.parametrize("name", ["landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self"])
def test_deletion_cannot_be_denied_without_landlock(without: Without, hosted: Hosted, name: str, error: int) -> None:
    def work() -> None:
        with pytest.raises(sn.UnsupportedError) as caught:
            sn.Sandbox(sn.Policy.strict(deletion=sn.Deletion.DENY))
        assert "Landlock (Policy.deletion=Deletion.DENY needs it)" in caught.value.missing
        assert "Deletion.ALLOW" in caught.value.remedy

    without(name, error)
    hosted(work)


# ---- the rung without namespaces ----


@ERRORS
@pytest.mark.parametrize("name", ["unshare", "mount", "open_tree", "move_mount"])
def test_without_namespaces_a_policy_that_allows_it_has_the_rung_landlock(
    without: Without, hosted: Hosted, public: Guests, name: str, error: int
) -> None:
    place = str(public["inside"].parent)  # nothing can be shown elsewhere there

    def work() -> None:
        with pytest.raises(sn.UnsupportedError):
            sn.Sandbox(sn.Policy.strict(readable=[place]))
        lowest = sn.Policy.strict(readable=[place], minimum_rung=sn.Rung.LANDLOCK)
        try:
            with sn.Sandbox(lowest) as sandbox:
                assert sandbox.run(["/bin/true"]).enforcement.rung is sn.Rung.LANDLOCK
                assert untrue(sandbox, place) == []
                limited = sandbox.run(["/bin/sleep", "30"], limits=sn.Limits(wall_seconds=0.2))
                assert limited.status is sn.Status.WALL_LIMIT
        except sn.UnsupportedError as refused:  # an older Landlock
            assert any("Landlock ABI" in missing for missing in refused.missing)

    without(name, error)
    hosted(work)


# ---- mounts without mount_setattr ----


@ERRORS
@pytest.mark.needs("root")
def test_submounts_are_read_only_too_without_mount_setattr(without: Without, tmp_path: Path, error: int) -> None:
    tmp_path.chmod(0o755)
    below = tmp_path / "a b\\c"  # mountinfo escapes both
    below.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=777", "tmpfs", str(below)], check=True)
    try:
        without("mount_setattr", error)
        with sn.Sandbox(sn.Policy.strict(readable=[(str(tmp_path), "/shown")])) as sandbox:
            result = sandbox.run(["/bin/touch", "/shown/a b\\c/x"])
        assert (result.status, os.listdir(below)) == (sn.Status.NONZERO_EXIT, [])
        assert b"Read-only file system" in result.stderr or b"Permission denied" in result.stderr
    finally:
        subprocess.run(["umount", str(below)], check=True)


@ERRORS
@pytest.mark.needs("idmap")
def test_a_writable_root_is_refused_where_there_are_no_idmapped_mounts(without: Without, tmp_path: Path, error: int) -> None:
    without("mount_setattr", error)
    with pytest.raises(sn.SetupError) as caught, sn.Sandbox(sn.Policy.strict(writable=[str(tmp_path)])) as sandbox:
        sandbox.run(["/bin/true"])
    assert (caught.value.stage, caught.value.errno, caught.value.item) == ("idmap", error, str(tmp_path))


@ERRORS
def test_a_workspace_is_nosuid_and_nodev_without_mount_setattr(without: Without, tmp_path: Path, error: int) -> None:
    without("mount_setattr", error)
    with sn.Sandbox(sn.Policy.strict(workspace_owner="chown")) as sandbox:
        result = sandbox.run(sh("grep ' /workspace ' /proc/self/mountinfo | tail -n 1; touch made"), workspace=tmp_path)
    assert {"rw", "nosuid", "nodev"} <= set(result.text.split()[5].split(","))
    assert (os.listdir(tmp_path), (tmp_path / "made").stat().st_uid) == (["made"], os.geteuid())


# ---- the check of the receipts itself ----


@pytest.mark.parametrize(
    ("name", "argument", "layer"),
    [
        ("setsid", (0, 0, 0), "session"),
        ("sethostname", (0, 0, 0), "uts"),
        ("landlock_restrict_self", (0, 0, 0), "landlock"),
        ("prctl", (0, 0xFFFFFFFF, 28), "securebits"),  # PR_SET_SECUREBITS
        ("prctl", (0, 0xFFFFFFFF, 24), "capabilities"),  # PR_CAPBSET_DROP
        ("unshare", (0, 0xFFFFFFFF, 0x2000000), "cgroup_namespace"),
        ("prlimit64", (0, 0, 0), "rlimits"),
        ("setgroups", (0, 0, 0), "groups"),
    ],
)
def test_a_step_that_is_only_claimed_is_found_out(
    without: Without, hosted: Hosted, public: Guests, name: str, argument: tuple[int, int, int], layer: str
) -> None:
    """The call answers 0 and does nothing: no receipt could know, the guest does."""

    def work() -> None:
        with sn.Sandbox(boxes.strict(public)) as sandbox:
            found = [one.name for one in untrue(sandbox)]
        assert layer in found or (layer == "groups" and os.getgroups() == [])

    without(name, 0, argument)
    hosted(work)
