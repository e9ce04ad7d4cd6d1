"""YAML of a stranger gives texts, lists and mappings, in bounded time and memory, or an error that names the line."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_native.errors import UnsupportedError
from sandbox_native.judge.problems import ProblemError
from sandbox_native.judge.problems.yaml_file import load


def refused(text: str) -> ProblemError:
    with pytest.raises(ProblemError) as error:
        load(text, "problem.yaml")
    assert error.value.file == "problem.yaml" and error.value.field and error.value.remedy
    return error.value


WRITTEN: list[tuple[str, object]] = [
    ("", None),
    ("---\n", None),
    ("a: 1.10", {"a": "1.10"}),
    ("a: yes", {"a": "yes"}),
    ("a: 2025-09-01", {"a": "2025-09-01"}),
    ("a: 1:30:00", {"a": "1:30:00"}),
    ("a:\nb: ~\nc: ''\nd: 'null'", {"a": None, "b": None, "c": "", "d": "null"}),
    ("- [x, {y: z}]", [["x", {"y": "z"}]]),
    ("a: &x [1]\nb: *x", {"a": ["1"], "b": ["1"]}),
    ("a: !!str 5", {"a": "5"}),
    ("a: |\n  two\n  lines\n", {"a": "two\nlines\n"}),
]


def test_scalars_stay_what_is_written() -> None:
    for text, value in WRITTEN:
        assert load(text, "f") == value, text


BROKEN = [
    ("a: b\nc: [1\n", 3),
    ("a: b\n c: d\n", 2),
    ("a: *nowhere\n", 1),
    ("a: 'x\n", 2),
    ("a: 1\n---\nb: 2\n", 2),
    ("\tx: 1\n", 1),
]


def test_what_is_not_yaml_is_refused_with_its_line() -> None:
    for text, line in BROKEN:
        assert refused(text).field == f"line {line}", text


def test_characters_that_yaml_has_not_are_refused() -> None:
    for text in ("a: \x00", "a: \x07", "a: \ud800"):
        assert refused(text).field == "content"


@pytest.mark.parametrize(
    "tag", ["!!python/object/apply:os.system ['true']", "!!binary YQ==", "!own x", "!!set {a}", "!!timestamp 1"]
)
def test_tags_beyond_plain_data_are_refused(tag: str) -> None:
    assert "tag" in refused(f"a: {tag}").reason


def test_aliases_are_counted_expanded() -> None:
    text = "a: &a [" + "x, " * 10 + "]\n"
    text += "".join(
        f"{name}: &{name} [{', '.join([f'*{before}'] * 10)}]\n" for before, name in zip("abcdefg", "bcdefgh", strict=True)
    )
    assert "aliases expanded" in refused(text).reason


def test_an_alias_of_what_it_stands_in_is_refused() -> None:
    assert "alias" in refused("a: &a [*a]").reason
    assert "alias" in refused("&a {b: {c: *a}}").reason


def test_deep_nesting_is_refused() -> None:
    for text in ("[" * 5000, "{a: " * 5000, "- " * 5000, "? " * 5000, "a: " + "[" * 900 + "]" * 900):
        assert refused(text)


def test_a_key_that_stands_there_twice_is_refused() -> None:
    error = refused("limits:\n  memory: 1\n  memory: 2\n")
    assert error.field == "memory" and "line 3" in error.reason


def test_keys_are_texts() -> None:
    for text in ("? [a]\n: 1\n", "{{a: b}: c}", "~: 1\n"):
        assert "key" in refused(text).reason, text


def test_a_merge_key_is_a_key_like_any_other() -> None:
    assert load("a: &a {x: y}\nb:\n  <<: *a\n", "f") == {"a": {"x": "y"}, "b": {"<<": {"x": "y"}}}


def test_large_numbers_cost_nothing() -> None:
    digits, sixties = "9" * 50_000, ":".join(["59"] * 50_000)
    assert load(f"a: {digits}\nb: {sixties}\n", "f") == {"a": digits, "b": sixties}


@given(st.text(alphabet="ab:-[]{}&*!#|>'\"%@?, \n\t<~0\x00\u2028", max_size=60))
def test_any_text_gives_data_or_a_problem_error(text: str) -> None:
    try:
        value = load(text, "f")
    except ProblemError as error:
        assert error.file == "f"
    else:
        assert value is None or isinstance(value, str | list | dict)


def test_without_pyyaml_the_error_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(UnsupportedError, match=r"sandbox-native\[judge\]"):
        load("a: b", "f")
