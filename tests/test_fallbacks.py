"""The ways round what an older kernel or a stricter container lacks: one call of the launcher answers an errno, the rest is real.

Each combination ends in a true receipt or in a refusal that names what is missing.
"""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from running import sh

import sandbox_native as sn
from sandbox_native.features import launcher_path

pytestmark = [pytest.mark.kernel, pytest.mark.needs("userns"), pytest.mark.needs("cc")]

SOURCE = Path(__file__).parent / "probes" / "without.c"
Without = Callable[[str, int], None]


@pytest.fixture
def without(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Without:
    """`without("clone3", errno.ENOSYS)`: launchers started from now on get that answer."""

    def install(name: str, error: int) -> None:
        directory = tmp_path_factory.mktemp("launcher")
        for path in (directory, directory.parent, directory.parent.parent):
            path.chmod(0o755)
        program = directory / "launcher"
        numbers = {"clone3": 435, "close_range": 436, "openat2": 437, "mount_setattr": 442}
        number = str(numbers[name]) if name in numbers else f"SYS_{name}"
        macros = [f"-DNUMBER={number}", f"-DERROR={error}", f'-DLAUNCHER="{launcher_path()}"']
        subprocess.run(["cc", "-O1", *macros, str(SOURCE), "-o", str(program)], check=True)
        monkeypatch.setenv("SANDBOX_NATIVE_LAUNCHER", str(program))

    return install


def layers(result: sn.Result) -> dict[str, bool | None]:
    return {layer.name: layer.held for layer in result.enforcement.layers}


@pytest.mark.parametrize(
    ("name", "error"),
    [("clone3", errno.ENOSYS), ("clone3", errno.EPERM), ("close_range", errno.ENOSYS), ("mount_setattr", errno.ENOSYS)],
)
def test_a_box_without_a_newer_call_is_as_tight(without: Without, name: str, error: int) -> None:
    with sn.Sandbox() as sandbox:
        expected = layers(sandbox.run(["/bin/true"]))
    without(name, error)
    with sn.Sandbox() as sandbox:
        result = sandbox.run(sh("ls /proc/self/fd; touch /usr/x /etc/x; grep -c ' /usr[ /].* ro,' /proc/self/mountinfo"))
    assert result.stdout.split() == b"0 1 2 3 1".split()  # 3 is the directory that ls reads
    assert result.stderr.count(b"Read-only file system") == 2
    assert layers(result) == expected


@pytest.mark.needs("root")
def test_submounts_are_read_only_too_without_mount_setattr(without: Without, tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    below = tmp_path / "a b\\c"  # mountinfo escapes both
    below.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=777", "tmpfs", str(below)], check=True)
    try:
        without("mount_setattr", errno.ENOSYS)
        with sn.Sandbox(sn.Policy.strict(readable=[(str(tmp_path), "/shown")])) as sandbox:
            result = sandbox.run(["/bin/touch", "/shown/a b\\c/x"])
        assert (result.status, os.listdir(below)) == (sn.Status.NONZERO_EXIT, [])
        assert b"Read-only file system" in result.stderr
    finally:
        subprocess.run(["umount", str(below)], check=True)


@pytest.mark.needs("idmap")
def test_a_writable_root_is_refused_where_there_are_no_idmapped_mounts(without: Without, tmp_path: Path) -> None:
    without("mount_setattr", errno.ENOSYS)
    with pytest.raises(sn.SetupError) as caught, sn.Sandbox(sn.Policy.strict(writable=[str(tmp_path)])) as sandbox:
        sandbox.run(["/bin/true"])
    assert (caught.value.stage, caught.value.errno, caught.value.item) == ("idmap", errno.ENOSYS, str(tmp_path))


@pytest.mark.parametrize("name", ["openat2", "mount"])
def test_what_has_no_way_round_is_refused_before_anything_runs(without: Without, name: str) -> None:
    without(name, errno.EPERM)
    with pytest.raises((sn.UnsupportedError, sn.SetupError)) as caught, sn.Sandbox() as sandbox:
        sandbox.run(["/bin/true"])
    assert "doctor" in str(caught.value) or isinstance(caught.value, sn.UnsupportedError)


def test_a_workspace_is_nosuid_and_nodev_without_mount_setattr(without: Without, tmp_path: Path) -> None:
    without("mount_setattr", errno.ENOSYS)
    with sn.Sandbox(sn.Policy.strict(workspace_owner="chown")) as sandbox:
        result = sandbox.run(sh("grep ' /workspace ' /proc/self/mountinfo | tail -n 1; touch made"), workspace=tmp_path)
    assert {"rw", "nosuid", "nodev"} <= set(result.text.split()[5].split(","))
    assert (os.listdir(tmp_path), (tmp_path / "made").stat().st_uid) == (["made"], os.geteuid())
