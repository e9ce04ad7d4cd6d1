"""Errors carry data, survive pickling, and say what to do."""

from __future__ import annotations

import errno
import pickle
import re
from pathlib import Path

import pytest

from sandbox_native.errors import (
    REMEDIES,
    STAGES,
    ExecError,
    PolicyError,
    SandboxError,
    SetupError,
    UnsupportedError,
    setup_error,
)

WIRE = (Path(__file__).parent.parent / "csrc" / "common" / "wire.h").read_text()
STAGE = {name: number for number, name in STAGES.items()}

EXAMPLES: list[SandboxError] = [
    SandboxError("closed"),
    PolicyError("argv is empty"),
    PolicyError("must be positive", field="Limits.processes", value=0, remedy="give more"),
    UnsupportedError("no"),
    UnsupportedError("no rung", ["user namespaces", "seccomp"], "run as root"),
    SetupError("mount", errno.EACCES, "/data", "look"),
    SetupError("lost", 0),
    ExecError("exec", errno.ENOENT, "/bin/x", "look"),
]


def test_stages_are_those_of_the_wire() -> None:
    declared = {int(number): name.lower() for name, number in re.findall(r"SN_STAGE_(\w+) = (\d+)", WIRE)}
    assert declared.pop(0) == "none"
    assert declared == STAGES


def test_every_stage_has_a_remedy() -> None:
    assert set(REMEDIES) == set(STAGES.values())
    assert all(REMEDIES.values())


@pytest.mark.parametrize("error", EXAMPLES, ids=lambda error: type(error).__name__)
def test_pickling_keeps_class_attributes_words_and_notes(error: SandboxError) -> None:
    error.add_note("seen in a worker")
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        again = pickle.loads(pickle.dumps(error, protocol))
        assert type(again) is type(error)
        assert vars(again) == vars(error)
        assert str(again) == str(error)
        assert again.args == error.args


def test_the_second_parents_are_builtin() -> None:
    assert issubclass(PolicyError, SandboxError)
    assert issubclass(PolicyError, ValueError)
    assert issubclass(UnsupportedError, SandboxError)
    assert issubclass(UnsupportedError, RuntimeError)
    assert issubclass(SetupError, SandboxError)
    assert issubclass(SetupError, OSError)
    assert issubclass(ExecError, SetupError)


def test_policy_error_names_field_value_reason_and_remedy() -> None:
    error = PolicyError("holds '..'", field="Policy.readable[0]", value="/a/../b", remedy="give the path that is meant")
    assert str(error) == "Policy.readable[0]='/a/../b': holds '..'; give the path that is meant"
    assert (error.field, error.value, error.reason) == ("Policy.readable[0]", "'/a/../b'", "holds '..'")
    assert error.remedy == "give the path that is meant"


def test_policy_error_without_field_is_its_reason() -> None:
    assert str(PolicyError("argv is empty")) == "argv is empty"


class Unshowable:
    def __repr__(self) -> str:
        raise ZeroDivisionError


@pytest.mark.parametrize(
    "value",
    ["x" * 10_000_000, 10**5000, -(10**5000), ["y" * 1000] * 1000, Unshowable(), lambda: 0],
    ids=["text", "integer", "negative", "list", "unshowable", "unpicklable"],
)
def test_policy_error_shows_any_value_briefly_and_pickles(value: object) -> None:
    error = PolicyError("no", field="f", value=value)
    assert len(str(error)) < 2000
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_ordinary_values_are_shown_as_they_are() -> None:
    for value in (0, -7, 10**50, True, None, 1.5, "a", ("a", "b")):
        assert PolicyError("no", field="f", value=value).value == repr(value)


def test_unsupported_error_names_what_is_missing() -> None:
    assert str(UnsupportedError("no")) == "no"
    error = UnsupportedError("rung namespaces is not reached", ["user namespaces", "seccomp"], "run as root")
    assert str(error) == "rung namespaces is not reached; missing: user namespaces, seccomp; run as root"
    assert error.missing == ("user namespaces", "seccomp")


def test_setup_error_is_an_oserror_with_the_kernels_number() -> None:
    error = setup_error(STAGE["mount"], errno.ENOENT, "/data")
    assert type(error) is SetupError
    assert (error.stage, error.errno, error.item) == ("mount", errno.ENOENT, "/data")
    assert error.strerror == "No such file or directory"
    assert str(error) == f"mount failed on '/data': No such file or directory (ENOENT); {error.hint}"


@pytest.mark.parametrize("stage", STAGES)
def test_only_the_stage_exec_gives_an_exec_error(stage: int) -> None:
    error = setup_error(stage, errno.EIO, "thing")
    assert (type(error) is ExecError) == (STAGES[stage] == "exec")
    assert error.stage == STAGES[stage]
    assert error.hint == REMEDIES[error.stage]


def test_a_stage_that_we_do_not_know_is_still_an_error() -> None:
    error = setup_error(9999, errno.EIO, "thing")
    assert str(error) == "stage 9999 failed on 'thing': Input/output error (EIO)"


def test_no_errno_is_said_as_no_report() -> None:
    error = setup_error(STAGE["lost"], 0)
    assert (error.errno, error.item) == (0, "")
    assert str(error).startswith("lost failed: no report; ")


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (errno.ENOENT, "or the interpreter"),
        (errno.ENOEXEC, "neither a program for this machine nor a script"),
        (errno.EACCES, "not executable"),
        (errno.E2BIG, "too large together"),
        (errno.ENOTDIR, "not a directory"),
        (errno.ELOOP, "in circles"),
        (errno.ETXTBSY, "open for writing"),
    ],
)
def test_exec_failures_have_words_of_their_own(code: int, words: str) -> None:
    error = setup_error(STAGE["exec"], code, "/bin/x")
    assert words in error.hint
    assert "/bin/x" in str(error)
    others = {setup_error(STAGE["exec"], other, "").hint for other in range(1, 134) if other != code}
    assert error.hint not in others


@pytest.mark.parametrize(
    ("stage", "code", "words"),
    [
        ("spawn", errno.EACCES, "SANDBOX_NATIVE_LAUNCHER"),
        ("spawn", errno.EMFILE, "ulimit -n"),
        ("stdio", errno.EMFILE, "ulimit -n"),
        ("channel", errno.ENFILE, "fs.file-max"),
        ("userns", errno.ENOSPC, "user.max_user_namespaces"),
        ("clone", errno.EAGAIN, "Limits.processes"),
        ("files", errno.ENOSPC, "Limits.tmp_bytes"),
        ("workspace", errno.ENOSPC, "disk"),
        ("workspace", errno.ENOENT, "make the directory"),
        ("idmap", errno.EINVAL, 'workspace_owner="chown"'),
        ("mount", errno.EPERM, "doctor"),
    ],
)
def test_remedies_fit_stage_and_errno(stage: str, code: int, words: str) -> None:
    assert words in setup_error(STAGE[stage], code, "x").hint


def test_a_request_that_the_launcher_does_not_understand_is_ours_or_of_another_version() -> None:
    body, header = (setup_error(STAGE["request"], errno.EPROTO, item).hint for item in ("body", "header"))
    assert "report it" in body and "version" not in body
    assert "version" in header


def test_a_keyring_past_the_users_quota_names_the_switch() -> None:
    assert "kernel.keys.maxkeys" in setup_error(STAGE["keyring"], errno.EDQUOT).hint
    assert "maxkeys" not in setup_error(STAGE["keyring"], errno.EPERM).hint
