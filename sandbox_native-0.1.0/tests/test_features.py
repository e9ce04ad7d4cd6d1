"""Features: found by doing, kept for the process, probed again where an old answer would be wrong."""

from __future__ import annotations

import errno
import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from sandbox_native import SetupError, features
from sandbox_native._native import lib
from sandbox_native.features import Feature, launcher_path, probe


@pytest.fixture(autouse=True)
def forgotten() -> None:
    features._probe.cache_clear()


def test_every_probe_of_the_header_has_a_name() -> None:
    for feature in Feature:
        assert getattr(lib, f"SN_PROBE_{feature.name}") == feature.value
    assert len(Feature) == lib.SN_PROBE_COUNT


@pytest.mark.kernel
@pytest.mark.needs("userns")
def test_what_a_box_needs_is_found_where_user_namespaces_work() -> None:
    found = probe()
    assert found.missing == ()
    assert found.root == (os.geteuid() == 0)
    assert found.kernel == platform.release()
    for feature in (Feature.USERNS, Feature.MOUNT, Feature.NETNS, Feature.SECCOMP, Feature.PIDFD):
        assert found.works(feature), os.strerror(found.errors[feature])


@pytest.mark.kernel
def test_landlock_has_an_abi_or_an_errno() -> None:
    found = probe()
    assert (found.landlock_abi > 0) == found.works(Feature.LANDLOCK)


@pytest.mark.kernel
def test_capabilities_are_told_as_the_kernel_has_them() -> None:
    status = Path("/proc/self/status").read_text()
    effective = int(status.split("CapEff:")[1].split()[0], 16)
    assert probe().works(Feature.RESOURCE) == bool(effective >> 24 & 1)


def test_a_process_probes_once() -> None:
    assert probe() is probe()


def test_a_forked_process_probes_again() -> None:
    first = probe()
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        again = probe()
        os.write(writer, b"again" if again is not first and again == first else b"stale")
        os._exit(0)
    os.close(writer)
    told = os.read(reader, 16)
    os.close(reader)
    os.waitpid(pid, 0)
    assert told == b"again"


def test_another_launcher_is_probed_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    first = probe()
    other = tmp_path / "launcher"
    other.write_bytes(Path(launcher_path()).read_bytes())
    other.chmod(0o755)
    monkeypatch.setenv("SANDBOX_NATIVE_LAUNCHER", str(other))
    assert launcher_path() == str(other)
    assert probe() is not first


def test_a_missing_launcher_is_a_setup_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SANDBOX_NATIVE_LAUNCHER", str(tmp_path / "none"))
    with pytest.raises(SetupError) as caught:
        probe()
    assert (caught.value.stage, caught.value.errno) == ("spawn", errno.ENOENT)
    assert "SANDBOX_NATIVE_LAUNCHER" in caught.value.hint


def test_a_launcher_that_is_something_else_is_a_setup_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SANDBOX_NATIVE_LAUNCHER", "/bin/true")
    with pytest.raises(SetupError) as caught:
        probe()
    assert caught.value.stage in ("channel", "lost", "plan")


def test_importing_the_package_probes_nothing() -> None:
    code = "import sandbox_native, sys; assert 'sandbox_native._native' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_probing_leaves_the_mounts_of_the_host_alone() -> None:
    before = Path("/proc/self/mountinfo").read_text()
    probe()
    assert Path("/proc/self/mountinfo").read_text() == before
