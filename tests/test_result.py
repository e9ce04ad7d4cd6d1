"""Results: frozen, picklable, and whole as JSON."""

from __future__ import annotations

import base64
import dataclasses
import json
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_native.denials import Denial
from sandbox_native.policy import Rung
from sandbox_native.result import PEAK_OF_PROCESS, Enforcement, Layer, Result, Status, Usage

USAGE = Usage(
    wall_seconds=0.25,
    cpu_seconds=0.125,
    user_seconds=0.1,
    system_seconds=0.025,
    peak_memory_bytes=3 << 20,
    peak_memory_source=PEAK_OF_PROCESS,
    peak_memory_upper_bytes=None,
    peak_processes=2,
    voluntary_switches=5,
    involuntary_switches=1,
)
RECEIPT = Enforcement(
    rung=Rung.FULL,
    layers=(
        Layer(name="pid", mechanism="namespace", held=True),
        Layer(name="memory", mechanism="cgroup", held=False, detail="no swap accounting"),
        Layer(name="landlock", mechanism="landlock", held=None, detail="not requested"),
    ),
)


def result(**fields: Any) -> Result:
    values: dict[str, Any] = {
        "status": Status.OK,
        "exit_code": 0,
        "signal": None,
        "stdout": b"",
        "stderr": b"",
        "stdout_total": 0,
        "stderr_total": 0,
        "stdout_truncated": False,
        "stderr_truncated": False,
        "usage": USAGE,
        "killed_processes": 0,
        "enforcement": RECEIPT,
    }
    return Result(**{**values, **fields})


def data_of(shown: dict[str, str]) -> bytes:
    assert len(shown) == 1
    return base64.b64decode(shown["base64"], validate=True) if "base64" in shown else shown["text"].encode()


def test_status_values_are_the_words_of_the_json() -> None:
    assert [status.value for status in Status] == [
        "ok",
        "nonzero_exit",
        "signaled",
        "wall_limit",
        "cpu_limit",
        "memory_limit",
        "output_limit",
        "forbidden_syscall",
        "cancelled",
    ]


@pytest.mark.parametrize("status", Status)
def test_ok_is_the_status_ok_and_no_other(status: Status) -> None:
    assert result(status=status).ok is (status is Status.OK)


def test_text_decodes_stdout_with_replacement() -> None:
    assert result(stdout="é".encode() + b"\xff\n", stderr=b"no").text == "é\ufffd\n"


def test_results_are_frozen_and_picklable() -> None:
    whole = result(stdout=b"\xff", files={"a": b"1"}, files_refused={"b": "a link"}, hint="raise it")
    again = pickle.loads(pickle.dumps(whole))
    assert again == whole
    assert again.enforcement.rung is Rung.FULL
    for value, name in ((whole, "status"), (USAGE, "wall_seconds"), (RECEIPT, "rung"), (RECEIPT.layers[0], "held")):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(value, name, None)


def test_results_do_not_share_their_files() -> None:
    assert result().files == {}
    assert result().files is not result().files


def test_to_dict_has_every_field_and_the_version() -> None:
    shown = result().to_dict()
    fields = {field.name for field in dataclasses.fields(Result)}
    assert set(shown) == fields | {"version", "ok"}
    assert shown["version"] == 1
    assert set(shown["usage"]) == {field.name for field in dataclasses.fields(Usage)}
    assert {frozenset(layer) for layer in shown["enforcement"]["layers"]} == {frozenset({"name", "mechanism", "held", "detail"})}


def test_to_dict_as_a_whole() -> None:
    whole = result(
        status=Status.SIGNALED,
        exit_code=None,
        signal=6,
        stdout=b"hi\n",
        stderr=b"\xff\x00",
        stdout_total=3,
        stderr_total=9,
        stderr_truncated=True,
        killed_processes=4,
        files={"out/a": b"1", "b": b"\x80"},
        files_refused={"c": "a link"},
        hint="look",
        denials=(Denial(kind="path", name="/etc/shadow", reason="not in the view", count=2, allow="readable"),),
    )
    assert json.loads(json.dumps(whole.to_dict())) == {
        "version": 1,
        "status": "signaled",
        "ok": False,
        "exit_code": None,
        "signal": 6,
        "stdout": {"text": "hi\n"},
        "stderr": {"base64": "/wA="},
        "stdout_total": 3,
        "stderr_total": 9,
        "stdout_truncated": False,
        "stderr_truncated": True,
        "files": {"out/a": {"text": "1"}, "b": {"base64": "gA=="}},
        "files_refused": {"c": "a link"},
        "usage": {
            "wall_seconds": 0.25,
            "cpu_seconds": 0.125,
            "user_seconds": 0.1,
            "system_seconds": 0.025,
            "peak_memory_bytes": 3 << 20,
            "peak_memory_source": "high-water mark of the largest process",
            "peak_memory_upper_bytes": None,
            "peak_processes": 2,
            "voluntary_switches": 5,
            "involuntary_switches": 1,
            "core": None,
        },
        "killed_processes": 4,
        "enforcement": {
            "rung": "full",
            "layers": [
                {"name": "pid", "mechanism": "namespace", "held": True, "detail": ""},
                {"name": "memory", "mechanism": "cgroup", "held": False, "detail": "no swap accounting"},
                {"name": "landlock", "mechanism": "landlock", "held": None, "detail": "not requested"},
            ],
        },
        "hint": "look",
        "denials": [
            {
                "kind": "path",
                "name": "/etc/shadow",
                "arguments": "",
                "reason": "not in the view",
                "count": 2,
                "allow": "readable",
            }
        ],
        "changes": None,
    }


@given(stdout=st.binary(), stderr=st.text().map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_bytes_survive_json_whatever_they_are(stdout: bytes, stderr: bytes) -> None:
    shown = json.loads(json.dumps(result(stdout=stdout, stderr=stderr, files={"n": stdout}).to_dict()))
    assert data_of(shown["stdout"]) == stdout
    assert data_of(shown["stderr"]) == stderr
    assert data_of(shown["files"]["n"]) == stdout


NAMES = st.lists(st.binary(min_size=1), max_size=4, unique=True)


@given(NAMES, NAMES)
def test_names_are_json_for_every_encoder_and_stay_apart(kept: list[bytes], refused: list[bytes]) -> None:
    files = {name.decode("utf-8", "surrogateescape"): name for name in kept}
    whole = result(files=files, files_refused={name.decode("utf-8", "surrogateescape"): "a link" for name in refused})
    shown = json.loads(json.dumps(whole.to_dict(), ensure_ascii=False).encode())
    assert [data_of(data) for data in shown["files"].values()] == kept
    assert len(shown["files_refused"]) == len(refused)


@pytest.mark.parametrize(
    ("name", "shown"), [("out/é.txt", "out/é.txt"), ("n\udcff", "n\\xff"), ("n\\xff", "n\\\\xff"), ("a\\b", "a\\\\b")]
)
def test_names_as_they_are_shown(name: str, shown: str) -> None:
    whole = result(files={name: b""}, files_refused={name: "a link"}).to_dict()
    assert (list(whole["files"]), list(whole["files_refused"])) == ([shown], [shown])


def test_a_status_is_its_value_as_text() -> None:
    assert Status.OK == "ok" and f"{Status.WALL_LIMIT}" == "wall_limit"
    assert Status("ok") is Status.OK
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps(Status.OK, protocol)) is Status.OK
