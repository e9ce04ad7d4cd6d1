"""The command line's variables: --env, --secret and --inherit."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytestmark = [pytest.mark.kernel, pytest.mark.needs("userns")]
SECRET = "s3cr3t-41aa"


def run(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "sandbox_native", "run", *words]
    return subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, check=False)


def test_a_secret_is_taken_from_our_environment_and_is_not_shown() -> None:
    script = ["--", "/bin/sh", "-c", "exit ${#TOKEN}"]
    for options in ([], ["--json"], ["--receipt"]):
        done = run("--secret", "TOKEN", *options, *script, TOKEN=SECRET)
        assert done.returncode == len(SECRET)
        assert SECRET not in done.stdout + done.stderr


def test_a_secret_that_is_not_set_or_in_env_too_is_refused() -> None:
    for options, said in (
        (["--secret", "NOBODY_SET_THIS"], "is not set"),
        (["--secret", "TOKEN", "--env", "TOKEN=x"], "in env= as well"),
    ):
        done = run(*options, "--", "/bin/true", TOKEN=SECRET)
        assert done.returncode == 125 and said in done.stderr and SECRET not in done.stderr


def test_named_variables_are_inherited() -> None:
    done = run("--inherit", "LC_*", "--inherit", "TERM", "--", "/usr/bin/env", LC_TIME="de_DE", TERM="here", OTHER="x")
    assert {"LC_TIME=de_DE", "TERM=here"} <= set(done.stdout.splitlines()) and "OTHER" not in done.stdout
    refused = run("--inherit", "LD_PRELOAD", "--", "/bin/true")
    assert refused.returncode == 125 and "Policy.inherit[0]" in refused.stderr


def test_what_is_ours_cannot_be_given() -> None:
    refused = run("--env", "PATH=/x", "--", "/bin/true")
    assert refused.returncode == 125 and "Policy.path" in refused.stderr
