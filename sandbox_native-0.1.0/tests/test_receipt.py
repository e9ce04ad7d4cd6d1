"""The receipt says what held, not what was planned."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from capabilities import not_held
from running import sh

from sandbox_native import Deletion, Layer, Limits, Policy, Rung, Sandbox, UnsupportedError, Writes
from sandbox_native._native import lib
from sandbox_native.plan import Identity, Op, Plan, Ruleset
from sandbox_native.receipt import Ground, Receipts
from sandbox_native.receipt_paths import NOTHING, Brought
from sandbox_native.rules import Access
from sandbox_native.shown import HostTree, Shown
from sandbox_native.verdict import Kind, ReportData

ALL = sum(getattr(lib, name) for name in dir(lib) if name.startswith("SN_HELD_")) & ~lib.SN_HELD_PROC_SUBSET


SHOWN = (
    Shown(kind="overlay", inside="/srv/in"),
    Shown(kind="bind", inside="/srv/out", access=Access.WRITABLE),
    Shown(kind="guard", inside="/srv/out/.git", access=Access.WRITABLE),
    Shown(kind="guard", inside="/srv/out/.git/hooks", access=Access.PROTECTED),
    Shown(kind="mask", inside="/srv/out/secret", access=Access.HIDDEN),
)
TREE = HostTree(shown=SHOWN)
EVERYTHING = Policy.strict(writable=["/srv/out"], writes=Writes.COMMIT, deletion=Deletion.DENY, explain=True)
BROUGHT = Brought(shown=True, guards=1)


def receipts(
    rung: Rung = Rung.FULL, seccomp: bytes | None = bytes(8), policy: Policy | None = None, tree: HostTree = TREE
) -> Receipts:
    policy = policy or Policy.strict()
    plan = Plan(
        identity=Identity(root=True, box_uid=7, box_gid=7, owner_uid=0, owner_gid=0),
        template=(),
        box=(),
        workspace="/workspace",
        hostname="sandbox",
        tmp_bytes=1,
        seccomp=seccomp,
        landlock=Ruleset(handled=1, scoped=1) if policy.deletion is Deletion.DENY else None,
        explain=bytes(8) if policy.explain else None,
    )
    return Receipts(
        Ground(
            rung=rung,
            policy=policy,
            plan=plan,
            group="why",
            swap_limited=True,
            rlimit_counts=rung is not Rung.FULL,
            landlock_abi=6,
            tree=tree,
        )
    )


def layers(
    held: int,
    rung: Rung = Rung.FULL,
    limits: Limits | None = None,
    kept: int = 0,
    brought: Brought = NOTHING,
    **more: Any,
) -> dict[str, Layer]:
    report = ReportData(kind=Kind.ENDED, held=held, rlimits_kept=kept)
    return {layer.name: layer for layer in receipts(rung, **more).of(report, limits or Limits(), brought).layers}


def test_every_bit_of_the_header_is_a_layer_or_a_detail() -> None:
    complete = layers(ALL, brought=BROUGHT, policy=EVERYTHING)
    assert all(layer.held is not False for layer in complete.values())
    bare = layers(ALL, Rung.LANDLOCK, policy=EVERYTHING)
    for name in dir(lib):
        if name.startswith("SN_HELD_") and name != "SN_HELD_PARKED":  # no layer: Sandbox.stats counts it
            bit = getattr(lib, name)
            changed = layers(ALL ^ bit, brought=BROUGHT, policy=EVERYTHING) != complete
            assert changed or layers(ALL ^ bit, Rung.LANDLOCK, policy=EVERYTHING) != bare, f"{name} changes nothing"


@pytest.mark.parametrize(
    ("bit", "name"),
    [
        ("USER", "user"),
        ("NET", "net"),
        ("CGROUP_NS", "cgroup_namespace"),
        ("SECCOMP", "seccomp"),
        ("CAPS", "capabilities"),
        ("RLIMITS", "rlimits"),
        ("GROUP", "control_group"),
        ("GROUP", "memory"),
        ("NO_GROUPS", "groups"),
        ("LANDLOCK", "landlock"),
        ("LANDLOCK", "deletion"),
        ("GUARDS", "protected"),
        ("GUARDS", "hidden"),
        ("CHANGES", "changes"),
        ("CHANGES", "protected"),
        ("EXPLAIN", "explain"),
    ],
)
def test_a_step_that_was_not_taken_is_not_held(bit: str, name: str) -> None:
    assert layers(ALL, brought=BROUGHT, policy=EVERYTHING)[name].held is True
    assert layers(ALL & ~getattr(lib, f"SN_HELD_{bit}"), brought=BROUGHT, policy=EVERYTHING)[name].held is False


def test_what_is_masked_elsewhere_is_none_of_procs() -> None:
    ground = receipts()._ground
    masks = tuple(Op(lib.SN_OP_MASK, path) for path in ("/proc/keys", "/proc/modules", "/workspace/secret"))
    told = Receipts(replace(ground, plan=replace(ground.plan, box=masks)))
    held = ALL & ~lib.SN_HELD_PROC_SUBSET
    found = told.of(ReportData(kind=Kind.ENDED, held=held, rlimits_kept=0), Limits()).layers
    assert next(one for one in found if one.name == "proc").detail == "2 host-wide names masked"


def test_without_namespaces_the_receipt_says_what_takes_their_place() -> None:
    held = lib.SN_HELD_LANDLOCK | lib.SN_HELD_SUBREAPER | lib.SN_HELD_SECCOMP | lib.SN_HELD_NO_NEW_PRIVS
    found = layers(held, Rung.LANDLOCK, policy=EVERYTHING)
    assert {name for name in ("pid", "tree", "net", "landlock", "seccomp") if found[name].held} == {
        *("pid", "tree", "net", "landlock", "seccomp")
    }
    assert not found["user"].held
    assert not found["mount"].held
    assert "root" not in found
    assert not layers(held & ~lib.SN_HELD_LANDLOCK, Rung.LANDLOCK, policy=EVERYTHING)["pid"].held


def test_a_window_and_a_word_of_the_caller_are_told() -> None:
    found = layers(ALL, policy=Policy.strict(writable=["/srv/out"], host_sockets="show"))
    assert "there was a window" in found["protected"].detail
    assert "1 existing names" in found["protected"].detail
    assert (found["host_sockets"].held, found["changes"].held) == (None, None)
    commit = layers(ALL, policy=EVERYTHING)
    assert "window" not in commit["protected"].detail
    assert commit["host_sockets"].detail.startswith("1 roots behind one")
    assert "ABI 6" in commit["landlock"].detail
    told = layers(ALL, policy=EVERYTHING, tree=HostTree(shown=SHOWN, absent=("/a",), changeable=("/b",), left_out=("/c",)))
    assert "1 were not there" in told["hidden"].detail
    direct = layers(ALL, policy=Policy.strict(), tree=HostTree(), brought=Brought(shown=True))
    assert (direct["host_sockets"].held, layers(ALL, policy=Policy.strict(), tree=HostTree())["host_sockets"].held) == (
        False,
        True,
    )
    assert "the workspace when the run began" in direct["host_sockets"].detail
    assert "1 links to such can be turned" in told["protected"].detail
    assert told["root"].detail == "1 paths in what is shown are left out, such as /c"
    assert layers(ALL, Rung.LANDLOCK, brought=BROUGHT)["protected"].held is False
    assert layers(ALL)["protected"].held is None
    assert "window" in layers(ALL, brought=BROUGHT)["protected"].detail


def test_what_was_not_asked_for_is_null() -> None:
    found = layers(ALL, seccomp=None)
    assert found["seccomp"].held is None
    assert found["landlock"].held is None
    assert (found["cpu_seconds"].held, found["cpus"].held) == (None, None)
    asked = layers(ALL, limits=Limits(cpu_seconds=1, cpus=1))
    assert (asked["cpu_seconds"].held, asked["cpus"].held) == (True, True)


def test_without_a_group_the_receipt_says_so() -> None:
    found = layers(ALL & ~lib.SN_HELD_GROUP, Rung.NAMESPACES, Limits(cpu_seconds=1))
    assert (found["control_group"].held, found["control_group"].detail) == (False, "why")
    assert found["memory"].mechanism == found["cpu_seconds"].mechanism == "sampling"
    assert "sockets is not counted" in found["memory"].detail
    assert found["processes"].mechanism == "rlimit"


def test_a_kept_rlimit_is_named() -> None:
    assert "hard limit" not in layers(ALL)["rlimits"].detail
    assert layers(ALL, kept=0b10)["rlimits"].detail.endswith("which stays: nofile")


def test_runs_for_which_the_same_held_share_a_receipt() -> None:
    made = receipts()
    report = ReportData(kind=Kind.ENDED, held=ALL)
    assert made.of(report, Limits()) is made.of(report, Limits(wall_seconds=1))
    assert made.of(report, Limits()) is not made.of(ReportData(kind=Kind.ENDED, held=ALL - 1), Limits())


# ---- of real runs ----


@pytest.fixture(params=["strict", "light"])
def sandbox(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    with Sandbox(Policy.strict() if request.param == "strict" else Policy.light()) as made:
        yield made


@pytest.mark.kernel
@pytest.mark.needs("userns")
def test_every_layer_that_was_asked_for_held(sandbox: Sandbox) -> None:
    enforcement = sandbox.run(sh("true")).enforcement
    lost = {layer.name for layer in enforcement.layers if layer.held is False}
    assert lost == not_held() | (set() if enforcement.rung is Rung.FULL else {"control_group"})
    asked = {layer.name for layer in enforcement.layers if layer.held}
    assert ("seccomp" in asked) == (sandbox.policy.preset == "strict")
    assert {"user", "mount", "pid", "ipc", "uts", "net", "root", "proc", "capabilities", "no_new_privs", "memory"} <= asked


@pytest.mark.kernel
@pytest.mark.needs("cgroup")
def test_a_machine_with_control_groups_reaches_the_full_rung() -> None:
    with Sandbox(Policy.strict(minimum_rung=Rung.FULL)) as sandbox:
        assert sandbox.run(["/bin/true"]).enforcement.rung is Rung.FULL


@pytest.mark.kernel
@pytest.mark.needs("userns", "no_cgroup")
def test_a_machine_without_them_is_refused_where_they_are_asked_for() -> None:
    with pytest.raises(UnsupportedError) as caught:
        Sandbox(Policy.strict(minimum_rung=Rung.FULL))
    assert "control group" in caught.value.missing[0]
    assert caught.value.remedy
