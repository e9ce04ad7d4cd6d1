"""Policies and limits as TOML: what is written is read again, and what is wrong is named with its keys."""

from __future__ import annotations

import string
import sys
from dataclasses import fields, replace
from enum import Enum
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

import pytest
from hypothesis import HealthCheck, assume, find, given, settings
from hypothesis import strategies as st

from sandbox_native import Limits, Overflow, Policy, PolicyError, Rung, UnsupportedError, Writes
from sandbox_native.policy_toml import load, named
from sandbox_native.syscalls import OPTIONAL

NAMES = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="/\0"), min_size=1, max_size=8)
PATHS = NAMES.map(lambda name: f"/srv/x{name}")
HINTS: dict[str, Any] = get_type_hints(Policy)
WORDS = st.text(alphabet=string.ascii_letters, min_size=1, max_size=8)


def values(name: str) -> st.SearchStrategy[Any]:
    """Any value of a field, found by its type, so that a new field is tried as well."""
    hint = HINTS[name]
    own: dict[str, st.SearchStrategy[Any]] = {
        "readable": st.lists(st.tuples(PATHS, PATHS), max_size=3),
        "writable": st.lists(st.tuples(PATHS, PATHS), max_size=3),
        "symlinks": st.lists(st.tuples(PATHS, NAMES), max_size=2),
        "hostname": WORDS,
        "syscalls": st.lists(st.sampled_from(sorted(OPTIONAL)), unique=True),
    }
    if name in own:
        return own[name]
    if get_origin(hint) is tuple:
        own_paths = PATHS.map(lambda path: f"/workspace{path}") if name in ("protected", "hidden") else PATHS
        return st.lists(NAMES if name in ("deny_write", "inherit") else own_paths, max_size=3)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return st.sampled_from(list(hint))
    return st.booleans() if hint is bool else st.sampled_from(get_args(hint))


def fitting(name: str, value: Any) -> dict[str, Any]:
    """That field with what it needs, or nothing where a policy refuses it: what passes is what must survive."""
    found = {name: value, **({"writes": Writes.COMMIT} if name == "changes" else {})}
    try:
        Policy(**found)
    except PolicyError:
        return {}
    return found


@st.composite
def policies(draw: st.DrawFn) -> Policy:
    given_fields: dict[str, Any] = {}
    for name in draw(st.lists(st.sampled_from(sorted(HINTS)), unique=True)):
        given_fields |= fitting(name, draw(values(name)))
    try:
        return Policy(**given_fields)
    except PolicyError:
        assume(False)
        raise


def refusal(source: Any) -> PolicyError:
    with pytest.raises(PolicyError) as caught:
        Policy.from_toml(source)
    assert caught.value.field and caught.value.reason and caught.value.remedy
    return caught.value


def told(text: str) -> tuple[str, str]:
    error = refusal(text + "\n")
    return error.field.removeprefix("TOML: "), error.reason


@settings(suppress_health_check=[HealthCheck.filter_too_much], deadline=None)
@given(policies())
def test_a_policy_is_itself_again(policy: Policy) -> None:
    text = policy.to_toml()
    assert Policy.from_toml(text) == policy
    assert Policy.from_toml(text).to_toml() == text


@given(
    wall=st.floats(0.001, 86400) | st.integers(1, 86400),
    cpus=st.none() | st.floats(0.01, 4096),
    memory=st.integers(1 << 20, 1 << 60),
    overflow=st.sampled_from(Overflow),
)
def test_limits_are_themselves_again(wall: float, cpus: float | None, memory: int, overflow: Overflow) -> None:
    limits = Limits(wall_seconds=wall, cpus=cpus, memory_bytes=memory, on_overflow=overflow)
    text = Policy.strict().to_toml(limits)
    assert Limits.from_toml(text) == limits
    assert Policy.from_toml(text) == Policy.strict()


@pytest.mark.parametrize("preset", [Policy.strict, Policy.light])
def test_every_field_is_written(preset: Any) -> None:
    text = preset().to_toml(Limits(cpu_seconds=1, cpus=1, address_space_bytes=1 << 30, stack_bytes=1 << 20))
    keys = [line.split(" = ")[0] for line in text.splitlines() if " = " in line]
    assert keys == [field.name for kind in (Policy, Limits) for field in fields(kind)]


def test_every_field_can_differ_from_its_default() -> None:
    """So that the round trip above says something about each."""
    for field in fields(Policy):

        def differs(value: Any, name: str = field.name) -> bool:
            found = fitting(name, value)
            return bool(found) and getattr(Policy(**found), name) != getattr(Policy(), name)

        assert find(values(field.name), differs) is not None


def test_what_is_left_out_is_the_preset_s() -> None:
    assert Policy.from_toml('hostname = "h"  # a comment\n') == Policy.strict(hostname="h")
    assert Policy.from_toml('preset = "light"\n') == Policy.light()
    assert Policy.from_toml("\n") == Policy.strict()
    assert load("hostname = 'h'\n").limits is None
    assert Limits.from_toml("hostname = 'h'\n") == Limits()
    assert Limits.from_toml("[limits]\nwall_seconds = 2\n") == Limits(wall_seconds=2)


def test_pairs_are_written_as_people_like() -> None:
    expected = Policy.strict(readable=["/a", ("/b", "/c"), ("/d", "/e")], symlinks=[("/x", "y")])
    text = 'readable = ["/a", ["/b", "/c"], {host = "/d", inside = "/e"}]\nsymlinks = [{inside = "/x", text = "y"}]\n'
    assert Policy.from_toml(text) == expected
    table = 'readable = ["/a", ["/b", "/c"], ["/d", "/e"]]\n[[symlinks]]\ninside = "/x"\ntext = "y"\n'
    assert Policy.from_toml(table) == expected


def test_a_path_names_a_file(tmp_path: Path) -> None:
    file = tmp_path / "p.toml"
    file.write_text(Policy.strict(minimum_rung=Rung.FULL).to_toml(Limits(processes=3)))
    assert Policy.from_toml(file) == Policy.from_toml(str(file)) == Policy.strict(minimum_rung=Rung.FULL)
    assert Limits.from_toml(file) == Limits(processes=3)
    assert named(str(file)).limits == Limits(processes=3)
    odd = tmp_path / "a\nb.toml"
    odd.write_text('hostname = "odd"\n')
    assert Policy.from_toml(odd) == named(str(odd)).policy == Policy.strict(hostname="odd")


def test_presets_have_names() -> None:
    assert (named("strict").policy, named("light").policy) == (Policy.strict(), Policy.light())
    with pytest.raises(PolicyError, match="did you mean 'strict'") as caught:
        named("srict")
    assert caught.value.field == "policy"


@pytest.mark.parametrize(
    ("text", "field", "nearest"),
    [
        ("readble = []", "readble", "readable"),
        ("Readable = []", "Readable", "readable"),
        ("read-only = []", "read-only", "read"),
        ("deny-write = []", "deny-write", "deny_write"),
        ("zzz = 1", "zzz", None),
        ("limit = {}", "limit", "limits"),
        ("[limits]\nwall = 1", "limits.wall", "wall_seconds"),
        ("[limits]\nwall_second = 1", "limits.wall_second", "wall_seconds"),
        ('readable = [{hots = "/a"}]', "readable[0].hots", "host"),
        ('symlinks = [{inside = "/a", txt = "b"}]', "symlinks[0].txt", "text"),
    ],
)
def test_a_wrong_key_is_named_with_the_nearest_right_one(text: str, field: str, nearest: str | None) -> None:
    error = refusal(text + "\n")
    assert (error.field, error.reason) == (f"TOML: {field}", "no such key")
    assert error.remedy.startswith(f"did you mean {nearest!r}" if nearest else "the keys are ")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("readable = 1", ("readable", "an integer, not an array")),
        ('readable = "/a"', ("readable", "a string, not an array")),
        ("readable = [1]", ("readable[0]", "an integer, not a path or [host, inside]")),
        ('readable = ["/a", ["/b"]]', ("readable[1]", "an array of 1, not a path or [host, inside]")),
        ('readable = [["/a", "/b", "/c"]]', ("readable[0]", "an array of 3, not a path or [host, inside]")),
        ('readable = [["/a", 2]]', ("readable[0][1]", "an integer, not a string")),
        ('readable = [{host = "/a"}]', ("readable[0]", "has no inside")),
        ('readable = [{host = "/a", inside = true}]', ("readable[0].inside", "a boolean, not a string")),
        ('symlinks = ["/a"]', ("symlinks[0]", "a string, not [inside, text]")),
        ('hidden = [["/a", "/b"]]', ("hidden[0]", "an array, not a string")),
        ("hostname = 2020-01-01", ("hostname", "a date or time, not a string")),
        ("explain = 1", ("explain", "an integer, not a boolean")),
        ('explain = "yes"', ("explain", "a string, not a boolean")),
        ("writes = true", ("writes", "a boolean, not a string")),
        ('writes = "DIRECT"', ("writes", "not one of Writes")),
        ('minimum_rung = "fool"', ("minimum_rung", "not one of Rung")),
        ("limits = 3", ("limits", "an integer, not a table")),
        ("[limits]\nwall_seconds = '2s'", ("limits.wall_seconds", "a string, not a number")),
        ("[limits]\nprocesses = true", ("limits.processes", "a boolean, not a number")),
        ("[limits]\ncpus = []", ("limits.cpus", "an array, not a number")),
        ("[limits]\non_overflow = 'stop'", ("limits.on_overflow", "not one of Overflow")),
    ],
)
def test_a_wrong_type_is_named_with_its_keys(text: str, expected: tuple[str, str]) -> None:
    assert told(text) == expected


def test_the_nearest_value_is_named() -> None:
    assert refusal('writes = "COMMIT"\n').remedy == "did you mean 'commit'?"
    assert refusal('minimum_rung = "fool"\n').remedy == "did you mean 'full'?"
    assert refusal('deletion = "zzz"\n').remedy == "give 'allow' or 'deny'"


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ('readable = ["a"]', "Policy.readable[0]"),
        ('preset = "strickt"', "Policy.preset"),
        ("[limits]\nwall_seconds = -1", "Limits.wall_seconds"),
        ("[limits]\nwall_seconds = inf", "Limits.wall_seconds"),
        ("[limits]\nprocesses = 1.5", "Limits.processes"),
    ],
)
def test_a_value_that_no_policy_takes_is_refused_as_ever(text: str, field: str) -> None:
    assert refusal(text + "\n").field == field


def test_what_is_no_toml_is_refused_with_its_place() -> None:
    error = refusal("hostname = 'h'\nreadable = []]\n")
    assert error.field == "TOML" and "line 2" in error.reason
    assert refusal("a = 1\na = 2\n").reason.startswith("not TOML: Cannot overwrite a value")
    assert refusal("a = " + "[" * 100_000 + "\n").reason == "nested too deeply"


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    (tmp_path / "latin").write_bytes(b"hostname = '\xe9'\n")
    (tmp_path / "large").write_bytes(b"#" * (1 << 20) + b"\n")
    wrong = {
        "latin": "not UTF-8",
        "large": "more than 1048576 bytes",
        "nope": "No such file",
        "": "Is a directory",
        "a\0": "null byte",
    }
    for name, reason in wrong.items():
        assert reason in refusal(tmp_path / name).reason
    for source in ("", b"x", None, 3):
        assert refusal(source).reason == "not a path"
    assert "more than" in refusal("/dev/zero").reason


def test_a_path_that_is_no_unicode_cannot_be_written() -> None:
    with pytest.raises(PolicyError) as caught:
        Policy.strict(readable=["/a\udcff"]).to_toml()
    assert (caught.value.field, caught.value.reason) == ("Policy.readable", "TOML holds Unicode only")


def test_writing_names_what_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tomli_w", None)
    with pytest.raises(UnsupportedError) as caught:
        Policy.strict().to_toml()
    assert (caught.value.missing, caught.value.remedy) == (("tomli_w",), "pip install tomli-w")
    assert Policy.from_toml("hostname = 'h'\n").hostname == "h"


def test_a_policy_from_a_file_can_be_changed() -> None:
    policy = Policy.from_toml('readable = ["/a"]\n')
    assert replace(policy, readable=(*policy.readable, "/b")) == Policy.strict(readable=["/a", "/b"])
