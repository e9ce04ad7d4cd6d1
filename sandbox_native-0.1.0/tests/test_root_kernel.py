"""The root as the template builds it (csrc/launcher/root.c): what lies on what."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from layers import (
    EMPTY,
    IDMAP,
    READ_ONLY,
    SAFE,
    Host,
    engine,
    hosts,
    plan,
    running,
    template_refused,
)
from running import sh

from sandbox_native._native import lib
from sandbox_native.plan import Op

pytestmark = [pytest.mark.kernel, pytest.mark.needs("userns")]

host = hosts("workspace")


def test_roots_nest_to_any_depth_in_the_order_of_the_plan(host: Host) -> None:
    def work(directory: Path) -> None:
        for path in ("w/gen/lock/deep", "other"):
            (directory / path).mkdir(parents=True)
        (directory / "other" / "file").write_text("of the other")
        base = str(directory / "w")
        ops = [
            Op(lib.SN_OP_BIND, "/w", READ_ONLY, source=base),
            Op(lib.SN_OP_BIND, "/w/gen", SAFE | IDMAP, source=f"{base}/gen"),
            Op(lib.SN_OP_BIND, "/w/gen/lock", READ_ONLY, source=f"{base}/gen/lock"),
            Op(lib.SN_OP_BIND, "/w/gen/lock/deep", READ_ONLY, source=str(directory / "other")),
        ]
        if os.geteuid() == 0:
            os.chown(directory / "w" / "gen", 0, 0)
        script = "for d in /w /w/gen /w/gen/lock /w/gen/lock/deep; do touch $d/new && echo $d; done; cat /w/gen/lock/deep/file"
        with engine(plan(ops)) as used, running(used, sh(script)) as ran:
            assert ran.lines == ["/w/gen", "of the other"], ran.stderr
        assert sorted(os.listdir(directory / "w" / "gen")) == ["lock", "new"]

    host(work)


def test_nothing_is_made_on_the_host_for_a_mount_point(host: Host) -> None:
    def work(directory: Path) -> None:
        root = Op(lib.SN_OP_BIND, "/w", SAFE | IDMAP, source=str(directory))
        bind = Op(lib.SN_OP_BIND, "/w/new", READ_ONLY, source="/usr")
        deeper = Op(lib.SN_OP_BIND, "/w/a/b", READ_ONLY, source="/usr")
        assert template_refused(root, bind) == (lib.SN_STAGE_MOUNT, errno.ENOENT, "/w/new")
        assert template_refused(root, deeper) == (lib.SN_STAGE_MOUNT, errno.ENOENT, "/w/a")
        for kind in (lib.SN_OP_DIR, lib.SN_OP_FILE, lib.SN_OP_SYMLINK):
            assert template_refused(root, Op(kind, "/w/made", data=b"x")) == (lib.SN_STAGE_MOUNT, errno.EXDEV, "/w/made")
        assert os.listdir(directory) == []

    host(work)


def test_masks_cover_files_directories_and_links(host: Host) -> None:
    def work(directory: Path) -> None:
        (directory / "dir").mkdir()
        (directory / "dir" / "inner").write_text("hidden")
        (directory / "file").write_text("hidden")
        (directory / "link").symlink_to("/usr")
        ops = [Op(lib.SN_OP_BIND, "/w", SAFE | IDMAP, source=str(directory))]
        ops += [
            Op(lib.SN_OP_MASK, f"/w/{name}", source=f"{EMPTY}/{kind}")
            for name, kind in (("dir", "dir"), ("file", "file"), ("link", "file"), ("absent", "dir"))
        ]
        script = "cd /w; cat file dir/inner link; ls dir; rm file; mv dir x; echo x > file; mkdir absent && echo made"
        with engine(plan(ops)) as used, running(used, sh(script)) as ran:
            assert ran.lines == ["made"], ran.stderr
        assert (directory / "file").read_text() == "hidden"
        assert (directory / "dir" / "inner").read_text() == "hidden"

    host(work)


def test_a_mask_of_another_kind_is_refused(host: Host) -> None:
    def work(directory: Path) -> None:
        (directory / "file").touch()
        bind = Op(lib.SN_OP_BIND, "/w", READ_ONLY, source=str(directory))
        mask = Op(lib.SN_OP_MASK, "/w/file", source=f"{EMPTY}/dir")
        assert template_refused(bind, mask) == (lib.SN_STAGE_MOUNT, errno.EINVAL, "/w/file")

    host(work)
