"""What Sandbox and run are given, checked (sandbox_native/arguments.py)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, cast

import pytest

import sandbox_native as sn
from sandbox_native import Job, Limits, Policy, PolicyError, Sandbox, Writes

pytestmark = [pytest.mark.kernel, pytest.mark.needs("userns")]

COMMIT_NEEDED = "give the Sandbox policy=Policy.strict(writes=Writes.COMMIT), or leave commit out"


def test_changes_that_are_not_kept_apart_cannot_wait_for_a_commit(tmp_path: Path) -> None:
    with Sandbox() as sandbox:
        for run in (sandbox.run, sandbox.spawn):
            with pytest.raises(PolicyError) as caught:
                run(["/bin/true"], workspace=tmp_path, commit=False)
            assert (caught.value.field, caught.value.value, caught.value.remedy) == ("commit", "False", COMMIT_NEEDED)
        (outcome,) = sandbox.run_many([Job(argv=["/bin/true"], commit=False)])
        assert isinstance(outcome, PolicyError) and outcome.field == "commit"
        assert sandbox.run(["/bin/true"], commit=True).ok and sandbox.run_many([Job(argv=["/bin/true"])])[0]


@pytest.mark.needs("changes")
def test_changes_that_are_kept_apart_can() -> None:
    with Sandbox(Policy.strict(writes=Writes.COMMIT)) as sandbox:
        assert sandbox.run(["/bin/true"], commit=False).ok


def test_an_option_that_a_run_does_not_have_is_named_without_our_own_names() -> None:
    with Sandbox() as sandbox:
        for name, meant in (
            ("timeout", "did you mean limits=Limits(wall_seconds=3)?"),
            ("wall_seconds", "did you mean limits=Limits(wall_seconds=3)?"),
            ("colour", "its options are stdin, stdout, limits, env"),
        ):
            options = cast(Any, {name: 3})
            for run in (sandbox.run, sandbox.spawn, lambda argv, **rest: asyncio.run(sandbox.run_async(argv, **rest)), sn.run):
                with pytest.raises(TypeError) as caught:
                    run(["/bin/true"], **options)
                assert str(caught.value).startswith(f"a run has no option {name!r}: {meant}")


@pytest.mark.parametrize("policy", ["strict", "policy.toml", Path("policy.toml")])
def test_a_name_is_no_policy_and_what_is_one_is_told(policy: Any) -> None:
    for make in (lambda: Sandbox(policy), lambda: sn.run(["/bin/true"], policy=policy)):
        with pytest.raises(PolicyError) as caught:
            make()
        assert caught.value.field == "policy"
        assert caught.value.remedy == "give Policy.strict(), Policy.light() or Policy.from_toml(path)"


def test_other_values_are_refused_by_name() -> None:
    with pytest.raises(PolicyError, match="give a Limits or None"):
        Sandbox(limits=cast(Limits, 3))
