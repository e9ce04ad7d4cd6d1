"""An id of the host that is nobody's."""

from __future__ import annotations

from pathlib import Path

import pytest

from sandbox_native import hostids


@pytest.fixture
def etc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The files that name ids, as this test wants them."""
    real = hostids._taken
    monkeypatch.setattr(hostids, "_taken", lambda path, column: real(str(tmp_path / Path(path).name), column))
    return tmp_path


def test_the_box_id_is_above_those_of_people_and_containers(etc: Path) -> None:
    assert hostids.free_id() == 0x70000000 + 1000


def test_an_id_that_is_taken_is_passed_over(etc: Path) -> None:
    first = 0x70000000 + 1000
    (etc / "passwd").write_text(f"root:x:0:0::/:/bin/sh\nodd:x:{first}:5::/:\nbroken line\n")
    (etc / "group").write_text(f"odd:x:{first - 1}:\n")
    (etc / "subuid").write_text(f"user:{first - 12}:11\nuser:100000:65536\n")
    (etc / "subgid").write_text("user:100000:65536\n")
    assert hostids.free_id() == first - 13


@pytest.mark.parametrize(
    ("maps", "expected"),
    [
        ("0 1000 1\n", None),
        ("0 1000 1\n1 100000 65536\n", 65536),
        ("0 0 4294967295\n", 0x70000000 + 1000),
        ("0 100000 65536\n", 65535),
    ],
)
def test_a_container_with_few_ids(etc: Path, monkeypatch: pytest.MonkeyPatch, maps: str, expected: int | None) -> None:
    (etc / "uid_map").write_text(maps)
    real = hostids._mapped
    monkeypatch.setattr(hostids, "_mapped", lambda path: real(str(etc / "uid_map")))
    assert hostids.free_id() == expected


@pytest.mark.parametrize(("map", "expected"), [("0 0 4294967295\n", True), ("0 1000 1\n", False), ("0 100000 65536\n", False)])
def test_a_user_namespace_of_a_container_is_told_from_the_hosts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, map: str, expected: bool
) -> None:
    (tmp_path / "uid_map").write_text(map)
    real = hostids._mapped
    monkeypatch.setattr(hostids, "_mapped", lambda path: real(str(tmp_path / "uid_map")))
    assert hostids.is_initial() is expected
