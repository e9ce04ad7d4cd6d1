"""Where what a box shows lies on the host, compared with what a guest finds there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sandbox_native import Policy, ReadPolicy, Sandbox
from sandbox_native.inside import Inside, Place, first_bytes
from sandbox_native.rules import Access


@pytest.mark.parametrize(
    ("path", "cwd", "place"),
    [
        ("/usr/bin/env", "/", Place.HOST),
        ("env", "/usr/bin", Place.HOST),
        ("../bin/./env", "/usr/lib", Place.HOST),
        ("/../usr//bin/env", "/", Place.HOST),
        ("/bin/env", "/", Place.HOST),
        ("/usr/bin/no-such-program", "/", Place.NONE),
        ("/usr/bin/env/x", "/", Place.NONE),
        ("/mnt/elsewhere", "/", Place.NONE),
        ("/root", "/", Place.NONE),
        ("/home", "/", Place.HOST),
        ("/home/guest/x", "/", Place.PRIVATE),
        ("x", "/workspace", Place.PRIVATE),
        ("/tmp/x", "/", Place.PRIVATE),
        ("/var/tmp/x", "/", Place.PRIVATE),
        ("/etc/no-such-program", "/", Place.BOX),
        ("/proc/self/exe", "/", Place.BOX),
    ],
)
def test_each_place_of_a_box_is_told_by_who_knows_it(path: str, cwd: str, place: Place) -> None:
    assert Inside(Policy.strict()).look(path, cwd).place is place


def test_links_lead_to_where_the_box_has_what_they_name(tmp_path: Path) -> None:
    (tmp_path / "tool").write_text("data")
    for name, text in (
        ("away", __file__),
        ("made_up", "/etc/made-up"),
        ("home", "/mnt/tools/tool"),
        ("round", "round"),
        ("up", "../tools/tool"),
    ):
        (tmp_path / name).symlink_to(text)
    inside = Inside(Policy.strict(readable=[(tmp_path, "/mnt/tools")]))
    tool = inside.look("/mnt/tools/tool")
    assert (tool.place, tool.path, tool.host) == (Place.HOST, "/mnt/tools/tool", str(tmp_path / "tool"))
    assert first_bytes(tool) == b"data"
    assert inside.look("/mnt/tools/away").place is Place.NONE  # the box does not show it, though the host has it
    assert inside.look("/mnt/tools/made_up").place is Place.BOX
    assert inside.look("/mnt/tools/home") == tool == inside.look("/mnt/tools/up")
    assert inside.look("/mnt/tools/round").place is Place.BOX


def test_a_bare_root_has_what_the_policy_gives_it(tmp_path: Path) -> None:
    (tmp_path / "tool").write_text("")
    inside = Inside(Policy.strict(system=False, readable=[(tmp_path, "/data")], symlinks=[("/bin", "data")]))
    assert inside.look("/usr/bin/env").place is Place.NONE
    assert inside.look("/bin/tool").path == "/data/tool"


def test_what_is_hidden_is_not_there_but_for_what_is_shown_in_it(tmp_path: Path) -> None:
    for name in ("kept", "gone"):
        (tmp_path / name).write_text("")
    policy = Policy.strict(
        readable=[(tmp_path, "/data"), (tmp_path / "kept", "/data/deep/kept")], hidden=["/data/deep", "/data/gone"]
    )
    inside = Inside(policy)
    assert [inside.look(f"/data/{name}").place for name in ("kept", "gone", "deep/kept")] == [Place.HOST, Place.NONE, Place.HOST]


def test_the_whole_host_is_there_with_the_boxs_own_places_in_it() -> None:
    inside = Inside(Policy.strict(read=ReadPolicy.HOST))
    assert inside.look("/etc/passwd").place is Place.BOX
    assert inside.look(str(Path(__file__))).host == os.path.realpath(__file__)
    assert inside.look("/tmp/x").place is Place.PRIVATE  # the host's /tmp is not the box's
    assert inside.look("/root/bin/tool").place is inside.look(os.path.expanduser("~/.ssh/x")).place is Place.NONE


def test_access_is_that_of_the_policy(tmp_path: Path) -> None:
    (tmp_path / "w").mkdir()
    inside = Inside(
        Policy.strict(readable=[(tmp_path, "/data")], writable=[(tmp_path / "w", "/data/w")], protected=["/data/w/p"])
    )
    for path, access in (("/data", Access.READABLE), ("/data/w", Access.WRITABLE), ("/usr/bin/env", Access.READABLE)):
        assert inside.access(inside.look(path)) is access


def test_a_runs_workspace_is_its_own(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("#!")
    (tmp_path / "out").symlink_to("/usr/bin/env")
    inside = Inside(Policy.strict())
    shown = inside.of_run(str(tmp_path)).look("run")
    assert (shown.place, shown.host, shown.by_run) == (Place.HOST, str(tmp_path / "run"), True)
    out = inside.of_run(str(tmp_path)).look("out")
    assert out.by_run and out.host == os.path.realpath("/usr/bin/env")
    placed = inside.of_run(None, {"a/run": b"data"}).look("./a/run")
    assert (placed.place, placed.data, placed.is_nothing) == (Place.PRIVATE, b"data", False)
    assert inside.look("run").is_nothing and not inside.look("/usr/bin/env").by_run


@pytest.mark.kernel
@pytest.mark.needs("userns")
def test_a_guest_finds_the_same(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    (tree / "sub").mkdir(parents=True)
    (tree / "sub" / "file").write_text("")
    for name, text in (
        ("in", "sub/file"),
        ("out", __file__),
        ("abs", "/mnt/t/sub/file"),
        ("loop", "loop"),
        ("host", str(tree / "sub" / "file")),
    ):
        (tree / name).symlink_to(text)
    policy = Policy.strict(
        readable=[(tree, "/mnt/t")], symlinks=[("/alias", "mnt/t/sub"), ("/mnt/dead", "/nowhere")], hidden=["/usr/share/doc"]
    )
    inside = Inside(policy)
    tried = [f"/mnt/t/{name}" for name in ("in", "out", "abs", "host", "sub/../in", "none", "sub/file/x")]
    tried += [
        "/alias/file",
        "/alias/../t/in",
        "/mnt/dead",
        "/bin/sh",
        "/lib64/x",
        "/usr/share/doc/x",
        "/opt",
        "/tmp/x",
        "/workspace",
        "/srv",
        "/mnt",
    ]
    with Sandbox(policy) as sandbox:
        script = 'for one in "$@"; do test -e "$one" && echo 1 || echo 0; done'
        found = sandbox.run(["/bin/sh", "-c", script, "sh", *tried]).text.split()
    expected = [str(int(not inside.look(path).is_nothing or path == "/workspace")) for path in tried]
    assert dict(zip(tried, found, strict=True)) == dict(zip(tried, expected, strict=True))
