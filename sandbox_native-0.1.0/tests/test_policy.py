"""Policies: presets, the order of rungs, and paths that no policy may show."""

from __future__ import annotations

import dataclasses
import itertools
import pickle
from pathlib import PurePosixPath
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_native import paths
from sandbox_native.errors import PolicyError
from sandbox_native.policy import Deletion, Policy, PolicyFields, ReadPolicy, Rung, Writes

STRONGEST_FIRST = ["FULL", "CONTAINER", "NAMESPACES", "LANDLOCK", "SEATBELT", "JOB", "AUDIT"]
SET_UP = ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/etc/passwd", "/etc/group", "/tmp"]
SET_UP += ["/home/guest", "/workspace"]
BAD_HOSTNAMES = ["", "-a", "a-", "a.-b", "a..b", ".a", "a.", "a b", "a\n", "a\0", "é", "a_b", "a/b", "a" * 64]
BAD_HOSTNAMES += [f"{'a' * 33}.{'b' * 31}"]


def strict(field: str, *specs: Any) -> Policy:
    fields: dict[str, Any] = {field: specs}
    return Policy.strict(**fields)


def refusal(**fields: Any) -> PolicyError:
    """The same from both presets and from the constructor."""
    words = set()
    for make in (Policy.strict, Policy.light, Policy):
        with pytest.raises(PolicyError) as caught:
            make(**fields)
        words.add(str(caught.value))
    error = caught.value
    assert len(words) == 1
    assert error.field.startswith("Policy.")
    assert error.value
    assert error.remedy
    return error


class TestRung:
    def test_names_go_from_the_strongest_to_the_weakest(self) -> None:
        assert [rung.name for rung in Rung] == STRONGEST_FIRST
        assert [rung.value for rung in Rung] == [name.lower() for name in STRONGEST_FIRST]

    @pytest.mark.parametrize(("stronger", "weaker"), list(itertools.combinations(Rung, 2)))
    def test_stronger_is_greater(self, stronger: Rung, weaker: Rung) -> None:
        assert stronger > weaker
        assert stronger >= weaker
        assert weaker < stronger
        assert weaker <= stronger
        assert not weaker >= stronger
        assert max(stronger, weaker) is stronger

    @pytest.mark.parametrize("rung", Rung)
    def test_a_rung_is_as_strong_as_itself(self, rung: Rung) -> None:
        assert rung >= rung
        assert rung <= rung
        assert not rung > rung
        assert not rung < rung
        assert hash(rung) == hash(pickle.loads(pickle.dumps(rung)))

    @pytest.mark.parametrize("other", ["full", 1, None])
    def test_nothing_else_compares(self, other: object) -> None:
        with pytest.raises(TypeError):
            sorted([Rung.FULL, other])  # type: ignore[type-var]


class TestValue:
    def test_strict_is_the_default(self) -> None:
        assert Policy.strict() == Policy()
        assert Policy.strict().preset == "strict"
        assert Policy.light().preset == "light"
        assert Policy.light() != Policy.strict()

    def test_defaults(self) -> None:
        policy = Policy.strict()
        assert (policy.readable, policy.writable, policy.hostname) == ((), (), "sandbox")
        assert (policy.minimum_rung, policy.workspace_owner) == (Rung.NAMESPACES, "idmap")
        assert (policy.read, policy.deletion, policy.writes) == (ReadPolicy.DECLARED, Deletion.ALLOW, Writes.DIRECT)
        assert (policy.changes, policy.on_hard_links, policy.host_sockets) == ("memory", "ignore", "scan")
        assert (policy.system, policy.explain, policy.deterministic, policy.inherit_unsafe) == (True, False, False, False)
        for name in ("protected", "hidden", "deny_write", "symlinks", "path", "inherit", "syscalls"):
            assert getattr(policy, name) == ()

    def test_the_fields_of_the_presets_are_those_of_the_value(self) -> None:
        names = {field.name for field in dataclasses.fields(Policy)}
        assert set(PolicyFields.__annotations__) == names - {"preset"}
        assert list(PolicyFields.__annotations__) == [field.name for field in dataclasses.fields(Policy)][1:]

    def test_fields_arrive_in_both_presets(self) -> None:
        fields: dict[str, Any] = {
            "readable": (("/data", "/data"),),
            "writable": (("/out", "/mnt/out"),),
            "hostname": "judge-1.example",
            "minimum_rung": Rung.FULL,
            "workspace_owner": "chown",
            "read": ReadPolicy.HOST,
            "protected": ("/mnt/out/lock",),
            "hidden": ("/mnt/out/secret", "/srv"),
            "deny_write": ("ci", "deploy/key"),
            "deletion": Deletion.DENY,
            "on_hard_links": "refuse",
            "host_sockets": "hide",
            "path": ("/data/bin",),
            "inherit": ("TZ", "LC_*"),
            "deterministic": False,
            "explain": True,
        }
        for policy in (Policy.strict(**fields), Policy.light(**fields)):
            assert {name: getattr(policy, name) for name in fields} == fields

    def test_lists_become_tuples_of_normal_paths(self) -> None:
        policy = Policy.strict(
            writable=["/w"],
            protected=iter(["/w/a/", PurePosixPath("/w//b")]),
            hidden=["/usr/./share"],
            deny_write=["./ci"],
            symlinks=[("/lib/", "usr/lib")],
            system=False,
            read=ReadPolicy.DECLARED,
            readable=["/usr/share"],
            path=["/w2/bin/"],
        )
        assert (policy.protected, policy.hidden, policy.deny_write) == (("/w/a", "/w/b"), ("/usr/share",), ("ci",))
        assert (policy.symlinks, policy.path) == ((("/lib", "usr/lib"),), ("/w2/bin",))

    def test_paths_become_pairs(self) -> None:
        policy = Policy.strict(readable=["/data/", ("/a", "/b")], writable=iter([PurePosixPath("/out")]))
        assert policy.readable == (("/data", "/data"), ("/a", "/b"))
        assert policy.writable == (("/out", "/out"),)

    def test_the_constructor_normalises_as_the_presets_do(self) -> None:
        assert Policy(readable=(("/data/", "/x/./y"),)) == Policy.strict(readable=[("/data", "/x/y")])

    def test_policies_are_frozen_hashable_and_picklable(self) -> None:
        policy = Policy.light(readable=["/data"], minimum_rung=Rung.FULL)
        again = pickle.loads(pickle.dumps(policy))
        assert again == policy
        assert hash(again) == hash(policy)
        with pytest.raises(dataclasses.FrozenInstanceError):
            policy.hostname = "x"  # type: ignore[misc]

    def test_replace_checks_again(self) -> None:
        with pytest.raises(PolicyError):
            dataclasses.replace(Policy.strict(), hostname="-")


class TestNames:
    @pytest.mark.parametrize("hostname", ["a", "A-1", "a.b-c.d", "0", "a" * 63, "a" * 32 + "." + "b" * 31])
    def test_host_names_pass(self, hostname: str) -> None:
        assert Policy.strict(hostname=hostname).hostname == hostname

    @pytest.mark.parametrize("hostname", [*BAD_HOSTNAMES, None, 3, b"a"])
    def test_other_names_are_refused(self, hostname: object) -> None:
        error = refusal(hostname=hostname)
        assert (error.field, error.reason) == ("Policy.hostname", "not a host name")

    @pytest.mark.parametrize("rung", ["full", "FULL", 1, None])
    def test_the_minimum_is_a_rung(self, rung: object) -> None:
        assert refusal(minimum_rung=rung).field == "Policy.minimum_rung"

    @pytest.mark.parametrize("owner", ["", "root", None, ["idmap"]])
    def test_the_owner_is_one_of_two(self, owner: object) -> None:
        assert refusal(workspace_owner=owner).field == "Policy.workspace_owner"

    @pytest.mark.parametrize("preset", ["", "Strict", None, 1])
    def test_the_preset_is_one_of_two(self, preset: Any) -> None:
        with pytest.raises(PolicyError, match=r"^Policy\.preset="):
            Policy(preset=preset)


@pytest.mark.parametrize("field", ["readable", "writable"])
class TestPaths:
    @pytest.mark.parametrize("spec", ["data", "/a/../b", "/a\0", "", ("/a", "b"), ("a", "/b"), ("/a",), 3])
    def test_what_is_no_absolute_path_is_refused(self, field: str, spec: object) -> None:
        assert refusal(**{field: ["/x", spec]}).field == f"Policy.{field}[1]"

    def test_a_lone_string_is_refused(self, field: str) -> None:
        assert refusal(**{field: "/data"}).reason == "not a list"

    def test_one_place_cannot_show_two(self, field: str) -> None:
        assert refusal(**{field: ["/a", ("/b", "/a/")]}).reason == "shown twice at /a"

    @pytest.mark.parametrize("inside", SET_UP)
    def test_what_the_box_has_cannot_be_covered(self, field: str, inside: str) -> None:
        error = refusal(**{field: [("/data", inside)]})
        assert error.field == f"Policy.{field}[0]"
        assert error.reason == "is there in every box already"
        assert f"'/mnt{inside[inside.rindex('/') :]}'" in error.remedy
        strict(field, ("/data", f"{inside}/x"), ("/data", f"{inside}x"))

    @pytest.mark.parametrize("inside", ["/", "/etc", "/home"])
    def test_nor_can_a_directory_above_it(self, field: str, inside: str) -> None:
        error = refusal(**{field: [("/data", inside)]})
        assert error.reason.startswith("would cover /")
        assert f"'/mnt/{inside[1:] or 'host'}'" in error.remedy

    @pytest.mark.parametrize("inside", ["/proc", "/proc/self", "/dev", "/dev/null", "/dev/shm/x", "/.empty/file"])
    def test_nothing_goes_beneath_what_the_kernel_fills(self, field: str, inside: str) -> None:
        refusal(**{field: [("/data", inside)]})

    @pytest.mark.parametrize("inside", ["/process", "/device", "/etc/hosts", "/home/me", "/tmp/x", "/var/lib", "/root"])
    def test_other_places_are_free(self, field: str, inside: str) -> None:
        strict(field, ("/data", inside))

    @pytest.mark.parametrize("host", ["/", "/proc", "/proc/1/root", "/dev", "/dev/sda", "/dev/shm"])
    def test_the_hosts_root_processes_and_devices_are_not_shown(self, field: str, host: str) -> None:
        assert refusal(**{field: [(host, "/mnt/x")]}).field == f"Policy.{field}[0]"

    @pytest.mark.parametrize("host", ["/dev/shm/x", "/device", "/process", "/usr", "/tmp"])
    def test_other_host_paths_are(self, field: str, host: str) -> None:
        strict(field, (host, "/mnt/x"))


def test_kernel_file_systems_are_readable_at_most() -> None:
    Policy.strict(readable=["/sys/devices", ("/sys", "/mnt/sys")])
    for host in ("/sys", "/sys/fs/cgroup/own"):
        assert refusal(writable=[(host, "/mnt/x")]).reason == "a kernel file system cannot be writable"


def test_one_place_shows_one_directory() -> None:
    error = refusal(readable=["/a"], writable=[("/b", "/a")])
    assert error.field == "Policy.writable[0]"
    assert error.reason == "/a is in Policy.readable as well, from /a"
    Policy.strict(readable=["/a"], writable=["/a"])


def test_one_path_can_lie_within_another() -> None:
    Policy.strict(readable=["/w", "/w/a/b"], writable=["/w/a"])


SPECS = st.lists(
    st.lists(st.sampled_from(["", ".", "..", "a", "b", "proc", "dev", "usr", "tmp", "home", "guest", "etc"]), max_size=4).map(
        lambda parts: "/" + "/".join(parts)
    ),
    max_size=4,
)


@given(hosts=SPECS, insides=SPECS)
def test_what_passes_covers_nothing_of_the_box(hosts: list[str], insides: list[str]) -> None:
    try:
        policy = Policy.strict(writable=list(zip(hosts, insides, strict=False)))
    except PolicyError as error:
        assert error.field.startswith("Policy.writable")
        return
    for host, inside in policy.writable:
        assert host == paths.absolute("f", host) != "/"
        assert not any(paths.contains(inside, ours) for ours in [*SET_UP, "/proc", "/dev", "/"])
        assert not any(paths.contains(ours, inside) for ours in ["/proc", "/dev"])
