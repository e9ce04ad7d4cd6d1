"""Limits refuse every number that could not be kept, and say which one."""

from __future__ import annotations

import dataclasses
import math
import pickle
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_native.errors import PolicyError
from sandbox_native.limits import Limits, Overflow

MIB = 1 << 20
DEFAULTS: dict[str, object] = {
    "wall_seconds": 10.0,
    "cpu_seconds": None,
    "memory_bytes": 512 * MIB,
    "processes": 64,
    "cpus": None,
    "open_files": 256,
    "file_bytes": 64 * MIB,
    "tmp_bytes": 64 * MIB,
    "stdout_bytes": 4 * MIB,
    "stderr_bytes": 4 * MIB,
    "on_overflow": Overflow.TRUNCATE,
    "address_space_bytes": None,
    "stack_bytes": None,
    "collect_bytes": 64 * MIB,
    "collect_files": 256,
}
NUMBERS = [name for name in DEFAULTS if name != "on_overflow"]
REALS = ["wall_seconds", "cpu_seconds", "cpus"]
WHOLES = [name for name in NUMBERS if name not in REALS]
OPTIONAL = [name for name, value in DEFAULTS.items() if value is None]

# The last number that passes on either side, and the first that does not.
LEAST: dict[str, tuple[float, float]] = {
    "wall_seconds": (1e-6, 9e-7),
    "cpu_seconds": (1e-6, 9e-7),
    "memory_bytes": (MIB, MIB - 1),
    "processes": (1, 0),
    "cpus": (0.01, 0.0099),
    "open_files": (3, 2),
    "file_bytes": (1, 0),
    "tmp_bytes": (1, 0),
    "stdout_bytes": (1, 0),
    "stderr_bytes": (1, 0),
    "address_space_bytes": (MIB, MIB - 1),
    "stack_bytes": (64 << 10, (64 << 10) - 1),
    "collect_bytes": (1, 0),
    "collect_files": (1, 0),
}
MOST: dict[str, tuple[float, float]] = {
    "wall_seconds": (86400, 86400.001),
    "cpu_seconds": (86400 * 4096, 86400 * 4096 + 1),
    "memory_bytes": (1 << 60, (1 << 60) + 1),
    "processes": ((1 << 22) - 2, (1 << 22) - 1),
    "cpus": (4096, 4096.5),
    "open_files": (1 << 20, (1 << 20) + 1),
    "file_bytes": (1 << 60, (1 << 60) + 1),
    "tmp_bytes": (1 << 60, (1 << 60) + 1),
    "stdout_bytes": (64 * MIB, 64 * MIB + 1),
    "stderr_bytes": (64 * MIB, 64 * MIB + 1),
    "address_space_bytes": (1 << 60, (1 << 60) + 1),
    "stack_bytes": (1 << 60, (1 << 60) + 1),
    "collect_bytes": (1 << 30, (1 << 30) + 1),
    "collect_files": (1 << 16, (1 << 16) + 1),
}


def make(name: str, value: Any) -> Limits:
    return Limits(**{name: value})


def refusal(name: str, value: Any) -> PolicyError:
    with pytest.raises(PolicyError) as caught:
        make(name, value)
    error = caught.value
    assert error.field == f"Limits.{name}"
    assert error.value
    assert error.remedy.startswith("give ")
    return error


def test_defaults_are_those_of_the_documentation() -> None:
    assert {field.name: getattr(Limits(), field.name) for field in dataclasses.fields(Limits)} == DEFAULTS


@pytest.mark.parametrize("name", NUMBERS)
def test_bounds_are_exact(name: str) -> None:
    for passes, fails in (LEAST[name], MOST[name]):
        assert getattr(make(name, passes), name) == passes
        refusal(name, fails)


@pytest.mark.parametrize("name", NUMBERS)
def test_zero_and_less_are_refused_as_such(name: str) -> None:
    for value in [0, -1, -(10**400)]:
        assert refusal(name, value).reason == "must be positive"


@pytest.mark.parametrize("name", NUMBERS)
def test_huge_integers_are_refused_with_a_short_message(name: str) -> None:
    error = refusal(name, 10**5000)
    assert error.reason == "too large"
    assert len(str(error)) < 200


@pytest.mark.parametrize("name", REALS)
def test_what_is_not_finite_is_refused_as_such(name: str) -> None:
    for value in [math.nan, math.inf, -math.inf]:
        assert refusal(name, value).reason == "not finite"


@pytest.mark.parametrize("name", WHOLES)
def test_fractions_are_refused_where_things_are_counted(name: str) -> None:
    for value in [1.0, 1048576.0, math.nan, math.inf, Fraction(4)]:
        assert refusal(name, value).reason == "not a whole number"


@pytest.mark.parametrize("name", NUMBERS)
def test_what_is_no_number_is_refused(name: str) -> None:
    for value in [True, "10", b"10", "256M", 1j, [], object()]:
        assert refusal(name, value).reason.startswith("not a ")


@pytest.mark.parametrize("name", NUMBERS)
def test_none_means_no_limit_only_where_that_is_offered(name: str) -> None:
    if name in OPTIONAL:
        assert getattr(make(name, None), name) is None
        assert "or None for no limit" in refusal(name, 0).remedy
    else:
        assert "None" not in refusal(name, None).remedy


@pytest.mark.parametrize("value", ["kill", "truncate", True, None])
def test_overflow_takes_the_enum_only(value: object) -> None:
    assert "Overflow.KILL" in refusal("on_overflow", value).remedy


def test_overflow_values_are_the_words_of_the_json() -> None:
    assert [overflow.value for overflow in Overflow] == ["truncate", "kill"]


@pytest.mark.parametrize("name", REALS)
def test_times_and_shares_become_floats(name: str) -> None:
    for value in (2, Fraction(5, 2)):
        kept = getattr(make(name, value), name)
        assert type(kept) is float
        assert kept == value


def test_equal_limits_are_equal_and_hash_equal() -> None:
    assert Limits(wall_seconds=2) == Limits(wall_seconds=2.0)
    assert hash(Limits(wall_seconds=2)) == hash(Limits(wall_seconds=2.0))
    assert Limits(wall_seconds=2) != Limits(wall_seconds=3)


def test_limits_are_frozen_keyword_only_and_picklable() -> None:
    limits = Limits(cpu_seconds=1.5, on_overflow=Overflow.KILL)
    assert pickle.loads(pickle.dumps(limits)) == limits
    with pytest.raises(dataclasses.FrozenInstanceError):
        limits.processes = 3  # type: ignore[misc]
    with pytest.raises(TypeError):
        Limits(10)  # type: ignore[call-arg]


def test_the_remedy_names_the_bounds_in_the_fields_unit() -> None:
    assert str(refusal("stack_bytes", 1)) == (
        "Limits.stack_bytes=1: too small to be kept; give a whole number of bytes from 64 KiB to 1 EiB, or None for no limit"
    )
    assert str(refusal("processes", -5)) == (
        "Limits.processes=-5: must be positive; give a whole number from 1 to 4,194,302 processes"
    )


def test_replace_checks_again() -> None:
    with pytest.raises(PolicyError):
        dataclasses.replace(Limits(), processes=0)


@given(name=st.sampled_from(NUMBERS), value=st.integers() | st.floats() | st.none() | st.booleans() | st.text())
def test_any_value_is_kept_within_its_bounds_or_refused(name: str, value: object) -> None:
    try:
        kept = getattr(make(name, value), name)
    except PolicyError as error:
        assert error.field == f"Limits.{name}"
        return
    if kept is None:
        assert value is None
        assert name in OPTIONAL
    else:
        assert kept == value
        assert math.isfinite(kept)
        assert LEAST[name][0] <= kept <= MOST[name][0]


@given(seconds=st.floats(min_value=1e-6, max_value=86400))
def test_times_that_pass_are_more_than_nothing_in_nanoseconds(seconds: float) -> None:
    limits = Limits(wall_seconds=seconds, cpu_seconds=seconds)
    assert int(limits.wall_seconds * 1e9) > 0
    assert limits.cpu_seconds is not None
    assert int(limits.cpu_seconds * 1e9) > 0


@pytest.mark.parametrize(
    ("name", "bounds"),
    [
        ("wall_seconds", "give a number from 0.000001 to 86,400 seconds"),
        ("cpus", "give a number from 0.01 to 4,096 cores, or None for no limit"),
        ("processes", "give a whole number from 1 to 4,194,302 processes"),
        ("memory_bytes", "give a whole number of bytes from 1 MiB to 1 EiB"),
        ("stdout_bytes", "give a whole number of bytes from 1 B to 64 MiB"),
    ],
)
def test_bounds_are_told_as_people_write_numbers(name: str, bounds: str) -> None:
    with pytest.raises(PolicyError) as caught:
        Limits(**{name: 0})  # type: ignore[arg-type]
    assert caught.value.remedy == bounds
