"""The root of a box: what the system's part of it is by each preset and choice, and boxes that have it."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from boxes import Guests, verbs
from planned import TREE
from running import sh

from sandbox_native import Policy, ReadPolicy, Sandbox, Writes
from sandbox_native._native import lib
from sandbox_native.paths import contains
from sandbox_native.plan import Op
from sandbox_native.rules import OWN
from sandbox_native.shown import Shown
from sandbox_native.view import CHANGES, box_ops, template_ops


def template(policy: Policy, *shown: Shown) -> dict[str, Op]:
    ops = template_ops(policy, replace(TREE, shown=shown), True)
    found = {op.target: op for op in ops}
    assert len(found) == len(ops), "something is made twice"
    return found


def test_without_the_system_only_what_every_box_has_is_there() -> None:
    whole, bare = template(Policy.strict()), template(Policy.strict(system=False))
    assert set(whole) - set(bare) == {"/usr", "/bin", "/lib64", "/opt", "/etc/ssl/certs"}
    assert set(bare) < set(whole)
    assert {"/etc/passwd", "/dev/null", "/proc", "/tmp", "/workspace"} <= set(bare)


def test_links_of_the_policy_are_made_in_the_root() -> None:
    links = [("/lib64", "usr/lib64"), ("/opt/tool/current", "/opt/tool/1.2"), ("/tmp/v/python", "/usr/bin/python3")]
    policy = Policy.strict(system=False, symlinks=links)
    found = template(policy)
    assert (found["/lib64"].kind, found["/lib64"].data) == (lib.SN_OP_SYMLINK, b"usr/lib64")
    assert found["/opt/tool/current"].data == b"/opt/tool/1.2"
    assert found["/.roots/0/python"].data == b"/usr/bin/python3"
    assert [op.target for op in box_ops(policy, TREE) if op.source == "/.roots/0"] == ["/tmp/v"]


def test_what_the_policy_shows_takes_the_place_of_what_every_box_has() -> None:
    shown = [Shown(kind="overlay", inside=path, source=path) for path in ("/usr", "/etc")]
    found = template(Policy.strict(read=ReadPolicy.HOST), *shown, Shown(kind="dir", inside="/var"))
    assert (found["/usr"].kind, found["/etc"].kind) == (lib.SN_OP_OVERLAY, lib.SN_OP_OVERLAY)
    assert not [path for path in found if path.startswith("/etc/")]
    assert found["/bin"].kind == lib.SN_OP_SYMLINK


def test_changes_have_a_place_where_they_are_kept_apart() -> None:
    assert (template(Policy.strict(writes=Writes.COMMIT))[CHANGES].mode, CHANGES in template(Policy.strict())) == (0o700, False)


@pytest.mark.parametrize("writes", Writes)
def test_nothing_is_put_where_a_box_covers_it(writes: Writes) -> None:
    shown = [Shown(kind="bind", inside=f"{own}/x/y", source="/y") for own in OWN]
    for target in template(Policy.strict(writes=writes), *shown):
        assert target in OWN or not any(contains(own, target) for own in OWN)


# ---- boxes ----


@pytest.mark.kernel
@pytest.mark.needs("userns")
def test_a_static_program_runs_without_the_system(guest: Guests) -> None:
    policy = Policy.strict(system=False, readable=[(guest["verbs"], verbs("")[0])], symlinks=[("/bin/verbs", verbs("")[0])])
    with Sandbox(policy) as sandbox:
        assert sandbox.run(verbs("exit 3")).exit_code == 3
        assert sandbox.run(["/bin/verbs", "exit", "4"]).exit_code == 4
        with pytest.raises(OSError):
            sandbox.run(["/bin/true"])


@pytest.mark.kernel
@pytest.mark.needs("userns")
def test_the_whole_host_is_shown_read_only_but_for_its_secrets(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    project = tmp_path / "project"
    project.mkdir()
    policy = Policy.strict(read=ReadPolicy.HOST, writable=[(project, "/project")], hidden=["/var/log"])
    script = """
        head -1 /etc/passwd
        cat /etc/shadow; ls /root; ls -A /var/log; ls -A /run
        touch /etc/x /var/x /usr/x /home/x /x
        touch /project/made /tmp/made ~/made /workspace/made && ls /project
    """
    with Sandbox(policy) as sandbox:
        result = sandbox.run(sh(script))
        assert result.text == Path("/etc/passwd").read_text().split("\n")[0] + "\nmade\n", result.stderr
        assert result.stderr.count(b"Read-only file system") == 5
        listed = sandbox.run(sh("ls /")).text.split()
    assert os.listdir(project) == ["made"]
    assert {"etc", "usr", "home", "var", "project"} <= set(listed)


@pytest.mark.kernel
@pytest.mark.needs("userns")
def test_a_file_can_be_a_root_and_lie_in_one(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    for name in ("notes", "w/list", "w/fixed"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(f"{name}\n")
    policy = Policy.strict(
        readable=[(tmp_path / "w", "/w"), (tmp_path / "notes", "/tmp/notes")],
        writable=[(tmp_path / "w/list", "/w/list")],
    )
    with Sandbox(policy) as sandbox:
        result = sandbox.run(sh("cat /w/fixed /tmp/notes; echo more >> /w/list; echo more >> /w/fixed; echo more >> /tmp/notes"))
    assert result.text == "w/fixed\nnotes\n"
    assert (tmp_path / "w/list").read_text() == "w/list\nmore\n"
    assert ((tmp_path / "w/fixed").read_text(), (tmp_path / "notes").read_text()) == ("w/fixed\n", "notes\n")
