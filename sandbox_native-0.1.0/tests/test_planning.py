"""The plan: the strongest rung that a machine reaches, or every thing that it lacks with its remedy, before anything runs."""

from __future__ import annotations

import errno
from typing import Any

import pytest
from planned import NO_GROUPS, PLAIN, facts, features, planned

from sandbox_native import Deletion, Limits, Policy, PolicyError, Rung, Sandbox, UnsupportedError, Writes
from sandbox_native._native import lib
from sandbox_native.backends import prepare
from sandbox_native.cgroup.values import Hierarchy
from sandbox_native.features import Feature, Features, probe
from sandbox_native.planning import Facts, plan
from sandbox_native.receipt import Receipts
from sandbox_native.remedies import Machine
from sandbox_native.rules import Access
from sandbox_native.shown import Shown
from sandbox_native.verdict import Kind, ReportData

SOCKET = Shown(kind="overlay", inside="/run/a", source="/run/a", field="Policy.readable[0]")
NO_PROC = features(proc=errno.EPERM, proc_subset=errno.EINVAL)
NO_CPU = Hierarchy(version=1, directories={"memory": "/m", "pids": "/p", "cpuacct": "/c"})
OLD = features(abi=0, overlay=errno.EPERM, changes=errno.EINVAL, listener=errno.ENOSYS)


def test_the_strongest_rung_that_there_is_serves() -> None:
    assert planned().rung is Rung.FULL
    assert planned(given=facts(hierarchy=NO_GROUPS)).rung is Rung.NAMESPACES
    assert planned(found=features(root=False), given=facts(identity=PLAIN)).rung is Rung.FULL


def test_a_weaker_rung_than_the_policy_asks_for_is_refused() -> None:
    with pytest.raises(UnsupportedError) as caught:
        planned(Policy.strict(minimum_rung=Rung.FULL), given=facts(hierarchy=NO_GROUPS))
    assert caught.value.reason == "the policy asks for rung full and this machine reaches namespaces"
    assert caught.value.missing == ("a control group (nothing is delegated)",)
    assert caught.value.remedy == NO_GROUPS.remedy


# ---- what a machine lacks: policy, limits, machine, facts; what is missing, and the remedy ----

LACKING: list[tuple[Policy, dict[str, Any], Features, Facts, str, str]] = [
    (Policy.strict(), {}, features(userns=errno.EPERM), facts(), "user namespaces", "security module"),
    (Policy.strict(), {}, features(userns=errno.ENOSPC), facts(), "user namespaces", "user.max_user_namespaces"),
    (Policy.light(), {}, features(mount=errno.EPERM), facts(), "a mount namespace", "security module"),
    (Policy.strict(), {}, features(netns=errno.EINVAL), facts(), "a network namespace", "CONFIG_NET_NS"),
    (Policy.strict(), {}, features(pidfd=errno.ENOSYS), facts(), "process descriptors", "5.3"),
    (Policy.strict(), {}, features(seccomp=errno.EINVAL), facts(), "system call filters", "CONFIG_SECCOMP_FILTER"),
    (Policy.strict(), {}, NO_PROC, facts(hierarchy=NO_GROUPS), "a new /proc for each box, or a control group", "systempaths"),
    (Policy.strict(), {}, NO_PROC, facts(hierarchy=NO_GROUPS), "a new /proc for each box, or a control group", "Delegate=yes"),
    (Policy.strict(deletion=Deletion.DENY), {}, OLD, facts(), "Landlock (Policy.deletion", "lsm="),
    (Policy.strict(deletion=Deletion.DENY), {}, OLD, facts(), "Landlock (Policy.deletion", "Deletion.ALLOW"),
    (Policy.light(deletion=Deletion.DENY), {}, OLD, facts(), "Landlock (Policy.deletion", "Deletion.ALLOW"),
    (Policy.strict(writes=Writes.COMMIT), {}, OLD, facts(), "Writes.COMMIT needs it", "Writes.DIRECT"),
    (Policy.strict(writes=Writes.COMMIT), {}, OLD, facts(), "Writes.COMMIT needs it", "6.6"),
    (Policy.strict(explain=True), {}, OLD, facts(), "Policy.explain needs it", "explain=False"),
    (Policy.strict(readable=["/run/a"]), {}, OLD, facts(SOCKET), "Policy.readable[0]: sockets of the host", '"show"'),
    (Policy.strict(), {"cpus": 1}, features(), facts(hierarchy=NO_GROUPS), "Limits.cpus needs it", "Delegate=yes"),
    (Policy.strict(), {"cpus": 1}, features(), facts(hierarchy=NO_GROUPS), "nothing is delegated", "Limits.cpus at None"),
    (Policy.strict(), {"cpus": 1}, features(), facts(hierarchy=NO_CPU), "it has no cpu controller", "Limits.cpus at None"),
]


@pytest.mark.parametrize(("policy", "limits", "machine", "given", "what", "remedy"), LACKING)
def test_what_is_missing_is_named_with_its_remedy(
    policy: Policy, limits: dict[str, Any], machine: Features, given: Facts, what: str, remedy: str
) -> None:
    with pytest.raises(UnsupportedError) as caught:
        planned(policy, machine, given, **limits)
    assert any(what in missing for missing in caught.value.missing), caught.value.missing
    assert remedy in caught.value.remedy
    assert caught.value.reason


def test_everything_that_is_missing_is_named_at_once() -> None:
    policy = Policy.strict(deletion=Deletion.DENY, writes=Writes.COMMIT, explain=True, readable=["/run/a"])
    with pytest.raises(UnsupportedError) as caught:
        planned(policy, OLD, facts(SOCKET, hierarchy=NO_GROUPS), cpus=2)
    assert len(caught.value.missing) == 5
    assert len(set(caught.value.missing)) == 5


def test_a_consequence_is_not_named_beside_its_cause() -> None:
    refused = features(**dict.fromkeys(("mount", "netns", "proc", "proc_subset", "overlay", "changes"), errno.EPERM))
    with pytest.raises(UnsupportedError) as caught:
        planned(Policy.strict(writes=Writes.COMMIT, readable=["/run/a"]), refused, facts(SOCKET, hierarchy=NO_GROUPS))
    assert caught.value.missing == ("a mount namespace with mounts of its own",)
    with pytest.raises(UnsupportedError) as caught:
        planned(found=features(mount=errno.EPERM, netns=errno.EINVAL))
    assert len(caught.value.missing) == 2


def test_what_refuses_namespaces_is_named_where_it_can_be_told() -> None:
    machine = Machine(root=False, container=False, launcher="/opt/launcher", apparmor_restricts_userns=1)
    with pytest.raises(UnsupportedError) as caught:
        planned(found=features(mount=errno.EACCES), given=facts(machine=machine))
    assert "AppArmor leaves user namespaces without privileges" in caught.value.missing[0]
    assert "apparmor_parser" in caught.value.remedy


def test_what_only_some_policies_need_is_not_asked_for_by_others() -> None:
    found = planned(found=OLD, given=facts(hierarchy=NO_GROUPS))
    assert (found.plan.landlock, found.plan.changes, found.plan.explain) == (None, "", None)


def test_a_file_cannot_be_kept_apart() -> None:
    shown = Shown(kind="bind", inside="/out.txt", access=Access.WRITABLE, directory=False, field="Policy.writable[0]")
    with pytest.raises(PolicyError) as caught:
        planned(Policy.strict(writable=["/out.txt"], writes=Writes.COMMIT), given=facts(shown))
    assert (caught.value.field, caught.value.value) == ("Policy.writable[0]", "'/out.txt'")
    assert "directory" in caught.value.remedy
    planned(Policy.strict(writable=["/out.txt"]), given=facts(shown))


def test_a_link_of_the_policy_s_takes_no_name_that_the_box_has() -> None:
    for taken in ("/etc/hostname", "/etc/localtime", "/var/tmp", "/run"):
        with pytest.raises(PolicyError) as caught:
            planned(Policy.strict(symlinks=[("/a", "b"), (taken, "elsewhere")]))
        assert (caught.value.field, caught.value.value) == ("Policy.symlinks[1]", repr(taken))
        assert caught.value.remedy


# ---- what is promised ----


def test_the_layers_of_a_plan_follow_the_machine_and_the_policy() -> None:
    full = planned().held
    for feature, bit in [
        (Feature.CGROUPNS, lib.SN_HELD_CGROUP_NS),
        (Feature.KEYRING, lib.SN_HELD_KEYRING),
        (Feature.LISTENER, lib.SN_HELD_LISTENER),
    ]:
        assert full & bit
        assert planned(found=features(**{feature.name.lower(): errno.ENOSYS})).held == full & ~bit
    assert planned(found=features(proc=errno.EPERM)).held == full | lib.SN_HELD_PROC_SUBSET
    assert planned(found=NO_PROC).held == full & ~lib.SN_HELD_PROC
    assert planned(given=facts(hierarchy=NO_GROUPS)).held == full & ~lib.SN_HELD_GROUP
    assert planned(given=facts(drops_groups=False)).held == full & ~lib.SN_HELD_NO_GROUPS
    assert planned(found=features(abi=0)).held == full & ~lib.SN_HELD_LANDLOCK
    without = planned(Policy.light(), given=facts(seccomp=None)).held
    assert without == full & ~(lib.SN_HELD_SECCOMP | lib.SN_HELD_LISTENER | lib.SN_HELD_LANDLOCK)
    assert planned(given=facts(explain=bytes(8))).held == full | lib.SN_HELD_EXPLAIN


def test_a_plan_can_always_be_written_down() -> None:
    policy = Policy.strict(writes=Writes.COMMIT, deletion=Deletion.DENY, explain=True, writable=["/w"], symlinks=[("/a", "b")])
    shown = Shown(kind="bind", inside="/w", source="/w", access=Access.WRITABLE)
    found = planned(policy, given=facts(shown, explain=bytes(8)))
    assert (found.plan.changes, found.plan.explain) == ("/.changes", bytes(8))
    assert len(found.plan.encode()) > 0


# ---- without namespaces ----

NO_USERNS = features(root=False, userns=errno.EPERM, mount=errno.EPERM, netns=errno.EPERM)
BARE = facts(identity=PLAIN, hierarchy=NO_GROUPS, bare_seccomp=bytes(8))


def test_a_rung_without_namespaces_serves_where_the_policy_allows_it() -> None:
    found = planned(Policy.strict(minimum_rung=Rung.LANDLOCK), NO_USERNS, BARE)
    assert found.rung is Rung.LANDLOCK
    assert (found.plan.bare, found.plan.template, found.plan.box, found.plan.seccomp) == (True, (), (), bytes(8))
    assert found.plan.landlock is not None
    assert found.held & lib.SN_HELD_LANDLOCK
    assert not found.held & (lib.SN_HELD_USER | lib.SN_HELD_MOUNT | lib.SN_HELD_PID | lib.SN_HELD_NET)
    assert planned(Policy.strict(minimum_rung=Rung.LANDLOCK)).rung is Rung.FULL


def test_where_it_is_not_allowed_it_is_named_as_a_way_out() -> None:
    with pytest.raises(UnsupportedError) as caught:
        planned(Policy.strict(), NO_USERNS, BARE)
    assert "minimum_rung=Rung.LANDLOCK" in caught.value.remedy
    with pytest.raises(UnsupportedError) as caught:
        planned(Policy.strict(), features(root=False, abi=5, userns=errno.EPERM), BARE)
    assert "LANDLOCK" not in caught.value.remedy


ROOTS = (
    Shown(kind="bind", inside="/w", source="/w", access=Access.WRITABLE, field="Policy.writable[0]"),
    Shown(kind="bind", inside="/w/ro", source="/w/ro", field="Policy.readable[0]"),
)


@pytest.mark.parametrize(
    ("fields", "shown", "what"),
    [
        ({"writes": Writes.COMMIT}, (), "Policy.writes"),
        ({"readable": [("/a", "/b")]}, (), "Policy.readable[0]"),
        ({"symlinks": [("/a", "b")]}, (), "Policy.symlinks"),
        ({"hidden": ["/usr/x"]}, (Shown(kind="mask", inside="/usr/x", field="Policy.hidden"),), "Policy.hidden"),
        ({"writable": ["/w"], "readable": ["/w/ro"]}, ROOTS, "it would be writable, as /w around it is"),
        ({"explain": True}, (), "Policy.explain"),
    ],
)
def test_what_only_mounts_can_hold_is_refused_there(fields: dict[str, Any], shown: tuple[Shown, ...], what: str) -> None:
    given = facts(*shown, identity=PLAIN, hierarchy=NO_GROUPS, bare_seccomp=bytes(8))
    with pytest.raises(UnsupportedError) as caught:
        planned(Policy.strict(minimum_rung=Rung.LANDLOCK, **fields), NO_USERNS, given)
    assert any(what in missing for missing in caught.value.missing), caught.value.missing
    assert any("user namespaces" in missing for missing in caught.value.missing)


# ---- and what a run then has ----


@pytest.mark.kernel
@pytest.mark.needs("userns")
@pytest.mark.parametrize(
    "policy",
    [
        Policy.strict(),
        Policy.light(),
        Policy.strict(deletion=Deletion.DENY),
        Policy.light(deletion=Deletion.DENY),
        Policy.strict(explain=True),
        Policy.strict(writes=Writes.COMMIT),
    ],
)
def test_every_layer_of_the_plan_is_in_the_receipt_of_a_run(policy: Policy) -> None:
    found = probe()
    hierarchy = prepare.control_groups()
    promised = plan(policy, Limits(), found, prepare._facts(policy, found, hierarchy))
    with Sandbox(policy) as sandbox:
        receipt = sandbox.run(["/bin/true"]).enforcement
        ground = sandbox._backend._ground  # type: ignore[attr-defined]
    assert receipt.rung is promised.rung
    expected = Receipts(ground).of(ReportData(kind=Kind.ENDED, held=promised.held), Limits()).layers
    told = {layer.name: (layer.mechanism, layer.held) for layer in receipt.layers}
    assert told == {layer.name: (layer.mechanism, layer.held) for layer in expected}
