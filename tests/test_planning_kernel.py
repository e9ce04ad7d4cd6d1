"""A sample of the random policies in real boxes: what a guest can read and write is what the rules of precedence say."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st
from running import PYTHON
from test_planning_model import PLACES, SUBS, Model, make_tree, policies

from sandbox_native import Policy, PolicyError, Sandbox, UnsupportedError, Writes

pytestmark = [pytest.mark.kernel, pytest.mark.needs("userns")]

# For each path: what its "id" says (or itself, when it is a file), and whether something can be made or changed there.
GUEST = """
import json, os, sys
told = {}
for path in json.load(sys.stdin):
    directory = os.path.isdir(path)
    try:
        with open(path + "/id" if directory else path) as file:
            said = file.read()
    except OSError as error:
        said = None
    try:
        flags = os.O_WRONLY | (os.O_CREAT if directory else 0)
        os.close(os.open(path + "/made" if directory else path, flags, 0o644))
        written = True
    except OSError as error:
        written = False
    told[path] = [said, written]
print(json.dumps(told))
"""


def name_all(top: Path) -> None:
    """Every directory has a file with its own path, and so has every file."""
    for path in [*top.rglob("*")]:
        target = path / "id" if path.is_dir() else path
        if target.name != "HEAD":
            target.write_text(str(path))
        path.chmod(0o755 if path.is_dir() else 0o666)


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Path]:
    tmp_path.chmod(0o755)
    yield tmp_path


def everything(top: Path) -> dict[str, bytes | None]:
    return {str(path): path.read_bytes() if path.is_file() else None for path in sorted(top.rglob("*"))}


@given(data=st.data())
@settings(
    max_examples=15,
    deadline=None,
    derandomize=True,
    phases=[Phase.generate],  # a box takes too long to look for the smallest case
    suppress_health_check=list(HealthCheck),
)
def test_a_guest_reads_and_writes_what_the_rules_say(data: st.DataObject, host: Path) -> None:
    shutil.rmtree(host / "tree", ignore_errors=True)
    tree = make_tree(host / "tree")
    name_all(tree)
    before = everything(tree)
    fields = data.draw(policies(tree)) | {"system": True}
    try:
        policy = Policy.strict(**fields)
        sandbox = Sandbox(policy)
    except (PolicyError, UnsupportedError):
        assume(False)
    model = Model(policy)
    paths = [place + sub for place in PLACES for sub in SUBS if Path(model.file(place + sub)).exists()]
    with sandbox:
        result = sandbox.run(
            [PYTHON, "-S", "-c", GUEST], stdin=json.dumps(paths).encode(), commit=policy.writes is not Writes.COMMIT
        )
        assert result.ok, result.stderr
    told = json.loads(result.text)
    for path in paths:
        access = model.access(path)
        file = model.file(path)
        shown = access in ("writable", "readable", "protected")
        said, written = told[path]
        assert said == (file if shown and not file.endswith("HEAD") else None), (path, access)
        private = not shown and path.startswith(("/tmp", "/workspace"))  # nothing of the host's: the guest may have its own there
        assert written == (access == "writable") or private, (path, access)
    if policy.writes is Writes.COMMIT:
        assert everything(tree) == before


def test_a_policy_of_each_kind_is_in_the_sample(host: Path) -> None:
    """That the sample is not all refusals: one policy with everything in it, by hand."""
    tree = make_tree(host / "tree")
    name_all(tree)
    fields: dict[str, Any] = {
        "readable": [(tree / "w", "/in")],
        "writable": [(tree / "w/a", "/in/a")],
        "protected": ["/in/a/f"],
        "hidden": ["/in/a/b/c"],
    }
    paths = ["/in", "/in/a", "/in/a/f", "/in/a/b", "/in/a/b/c", "/in/a/.git/hooks", "/in/a/b/.bashrc"]
    with Sandbox(Policy.strict(**fields)) as sandbox:
        told = json.loads(sandbox.run([PYTHON, "-S", "-c", GUEST], stdin=json.dumps(paths).encode()).text)
    at = f"{tree}/w"
    assert told == {
        "/in": [at, False],
        "/in/a": [f"{at}/a", True],
        "/in/a/f": [f"{at}/a/f", False],
        "/in/a/b": [f"{at}/a/b", True],
        "/in/a/b/c": [None, False],
        "/in/a/.git/hooks": [f"{at}/a/.git/hooks", False],
        "/in/a/b/.bashrc": [f"{at}/a/b/.bashrc", True],
    }
