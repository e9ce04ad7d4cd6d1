"""Overlays of the roots of a plan, whose changes are kept apart: SN_OP_CHANGES and what follows it (csrc/launcher/overlay.c)."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
from layers import (
    ASIDE,
    EMPTY,
    IDMAP,
    KEEP,
    READ_ONLY,
    SAFE,
    Host,
    engine,
    hosts,
    mounted,
    plan,
    refused,
    running,
)
from running import sh
from trees import WHITEOUT, state, tree, workspace

from sandbox_native._native import lib
from sandbox_native.plan import Op

pytestmark = [pytest.mark.kernel, pytest.mark.needs("userns")]

host = hosts("changes")


def aside(source: Path) -> Op:
    """A root that the template keeps for the boxes."""
    return Op(lib.SN_OP_BIND, f"{ASIDE}/0", READ_ONLY | IDMAP | lib.SN_OP_NORECURSE, source=str(source))


def changed(target: str, number: int = 1, source: str = f"{ASIDE}/0") -> Op:
    return Op(lib.SN_OP_CHANGES, target, SAFE, mode=number, source=source)


def test_each_root_has_changes_of_its_own(host: Host) -> None:
    def work(directory: Path) -> None:
        lower = workspace(directory)
        before = state(lower)
        box = [changed("/tmp/a/b"), changed("/root-of-mine", 2), Op(lib.SN_OP_MASK, ASIDE, source=f"{EMPTY}/dir")]
        template = [aside(lower), Op(lib.SN_OP_DIR, "/root-of-mine", mode=0o755)]
        script = f"echo 1 > /tmp/a/b/added; rm /root-of-mine/changed; cat /tmp/a/b/changed; ls {ASIDE}"
        with engine(plan(template, box)) as used, mounted(used, lower) as mount:
            with running(used, sh(f"{script}; rm /workspace/moved"), flags=KEEP, workspace=mount) as ran:
                assert ran.stdout == "old"
                found = {path: told for path, told in tree(ran.changes).items() if "/upper/" in path}
                assert found == {"1/upper/added": "1\n", "2/upper/changed": WHITEOUT, "0/upper/moved": WHITEOUT}
        assert state(lower) == before

    host(work)


def test_without_being_asked_for_they_are_lost(host: Host) -> None:
    def work(directory: Path) -> None:
        lower = workspace(directory)
        before = state(lower)
        with engine(plan([aside(lower)], [changed("/tmp/w")])) as used:
            for _ in range(2):
                with running(used, sh("cd /tmp/w; test ! -e added && rm deleted && echo x > added")) as ran:
                    assert (ran.exit_code, ran.changes) == (0, -1), ran.stderr
                    assert ran.held & lib.SN_HELD_CHANGES
        assert state(lower) == before

    host(work)


def test_what_follows_them_in_the_plan_lies_on_them(host: Host) -> None:
    def work(directory: Path) -> None:
        lower = workspace(directory)
        box = [
            changed("/tmp/w"),
            Op(lib.SN_OP_BIND, "/tmp/w/replaced", source="/usr/lib"),
            Op(lib.SN_OP_GUARD, "/tmp/w/kept", lib.SN_OP_RDONLY),
            Op(lib.SN_OP_GUARD, "/tmp/w/absent", lib.SN_OP_RDONLY),
            Op(lib.SN_OP_MASK, "/tmp/w/changed", source=f"{EMPTY}/file"),
        ]
        script = "cd /tmp/w; cat changed; ls replaced | grep -c os-release; echo x > kept/x; rm -r kept; mv kept y; echo > absent"
        with engine(plan([aside(lower)], box)) as used, running(used, sh(script), flags=KEEP) as ran:
            assert ran.stdout.split() == ["1"]
            for words in ("changed: Permission denied", "kept/x: Read-only file system", "'y': Device or resource busy"):
                assert words in ran.stderr, ran.stderr
            assert {path for path in tree(ran.changes) if path.startswith("1/upper/")} == {"1/upper/absent"}

    host(work)


def test_a_source_that_is_not_there_is_refused(host: Host) -> None:
    def work(directory: Path) -> None:
        with engine(plan([], [changed("/tmp/w")])) as used:
            assert refused(used) == (lib.SN_STAGE_OVERLAY, errno.ENOENT, "/tmp/w")

    host(work)


def test_a_target_that_cannot_be_made_is_refused(host: Host) -> None:
    def work(directory: Path) -> None:
        with engine(plan([aside(directory)], [changed("/nowhere")])) as used:
            assert refused(used) == (lib.SN_STAGE_OVERLAY, errno.EROFS, "/nowhere")

    host(work)


def test_a_file_system_of_its_own_may_not_follow(host: Host) -> None:
    def work(directory: Path) -> None:
        late = Op(lib.SN_OP_TMPFS, "/tmp/w/kept", SAFE)
        with engine(plan([aside(workspace(directory))], [changed("/tmp/w"), late])) as used:
            assert refused(used) == (lib.SN_STAGE_PLAN, errno.EINVAL, "/tmp/w/kept")

    host(work)


def test_a_link_on_the_way_leads_nowhere(host: Host) -> None:
    """Somebody on the host swaps a directory for a link after the plan was made."""

    def work(directory: Path) -> None:
        lower = workspace(directory)
        (lower / "kept" / "inner").mkdir()
        template = [aside(lower), Op(lib.SN_OP_BIND, "/w", READ_ONLY | IDMAP, source=str(lower))]
        with engine(plan(template, [changed("/w/kept/inner")])) as used:
            with running(used, ["/bin/true"]) as ran:
                assert ran.exit_code == 0
            (lower / "kept").rename(directory / "away")
            (lower / "kept").symlink_to("/usr")
            assert refused(used) == (lib.SN_STAGE_OVERLAY, errno.EROFS, "/w/kept/inner"), "it would be made in /usr"
            (lower / "kept").unlink()
            (lower / "kept").symlink_to("replaced")
            (lower / "replaced" / "inner").mkdir()
            assert refused(used) == (lib.SN_STAGE_OVERLAY, errno.ELOOP, "/w/kept/inner")

    host(work)
