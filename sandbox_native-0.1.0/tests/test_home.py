"""Where every host keeps secrets."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest

from sandbox_native import home


def test_the_callers_home_and_those_of_passwd_are_covered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    found = set(home.hidden_paths())
    homes = [str(tmp_path), *(entry.pw_dir for entry in pwd.getpwall() if os.path.isdir(entry.pw_dir))]
    for directory in homes:
        for name in (".ssh", ".gnupg", ".aws", ".config/gcloud", ".kube", ".docker", ".netrc", ".npmrc", ".pypirc"):
            assert f"{directory.rstrip('/')}/{name}" in found
    assert {"/root", "/run", "/var/run", "/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-"} <= found


def test_a_home_that_is_not_there_or_not_absolute_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(home, "_named", lambda: iter(["/nonexistent", "relative", "/"]))
    assert home.hidden_paths() == [*home.OF_THE_HOST, *(f"/{name}" for name in home.OF_A_HOME)]
