"""Policies that make no sense or ask for something unsafe: each is refused by a name, a value, a reason and a remedy."""

from __future__ import annotations

import re
from typing import Any

import pytest

from sandbox_native import Deletion, Policy, PolicyError, ReadPolicy, Rung, Writes

STRICT: list[tuple[dict[str, Any], str, str, str]] = [
    # ---- fields by themselves: what is given, the field named, the reason, the remedy ----
    ({"read": "host"}, "Policy.read", "not a ReadPolicy", "ReadPolicy.DECLARED"),
    ({"read": None}, "Policy.read", "not a ReadPolicy", "give one"),
    ({"deletion": "deny"}, "Policy.deletion", "not a Deletion", "Deletion.ALLOW"),
    ({"deletion": False}, "Policy.deletion", "not a Deletion", "give one"),
    ({"writes": "commit"}, "Policy.writes", "not a Writes", "Writes.DIRECT"),
    ({"writes": Deletion.DENY}, "Policy.writes", "not a Writes", "give one"),
    ({"changes": "ram"}, "Policy.changes", "unknown", "'memory' or 'disk'"),
    ({"on_hard_links": "forbid"}, "Policy.on_hard_links", "unknown", "'ignore' or 'report' or 'refuse'"),
    ({"on_hard_links": True}, "Policy.on_hard_links", "unknown", "'ignore'"),
    ({"host_sockets": "block"}, "Policy.host_sockets", "unknown", "'scan' or 'hide' or 'show'"),
    ({"host_sockets": []}, "Policy.host_sockets", "unknown", "'scan'"),
    ({"system": 1}, "Policy.system", "not a bool", "True or False"),
    ({"system": None}, "Policy.system", "not a bool", "True or False"),
    ({"deterministic": "yes"}, "Policy.deterministic", "not a bool", "True or False"),
    ({"inherit_unsafe": 1}, "Policy.inherit_unsafe", "not a bool", "True or False"),
    ({"explain": "all"}, "Policy.explain", "not a bool", "True or False"),
    ({"minimum_rung": "full"}, "Policy.minimum_rung", "not a Rung", "Rung.FULL"),
    ({"workspace_owner": "root"}, "Policy.workspace_owner", "unknown", "'idmap' or 'chown'"),
    ({"hostname": "no spaces"}, "Policy.hostname", "not a host name", "letters, digits"),
    ({"readable": "/data"}, "Policy.readable", "not a list", r"\[...\]"),
    ({"readable": b"/data"}, "Policy.readable", "not a list", r"\[...\]"),
    ({"readable": [b"/data"]}, "Policy.readable[0]", "not a path", "fsdecode"),
    ({"readable": ["data"]}, "Policy.readable[0]", "not an absolute path", "abspath"),
    ({"readable": ["~/data"]}, "Policy.readable[0]", "not an absolute path", "expanduser"),
    ({"readable": ["/a/../b"]}, "Policy.readable[0]", r"holds '\.\.'", "without"),
    ({"readable": ["/a", "/a/"]}, "Policy.readable[1]", "shown twice at /a", "leave one"),
    ({"readable": [("/a", "/b", "ro")]}, "Policy.readable[0]", "not a path or a pair", "path inside"),
    ({"writable": ["/" + "a/" * 2100]}, "Policy.writable[0]", "bytes long", "at most 4095"),
    ({"protected": "/w/lock"}, "Policy.protected", "not a list", r"\[...\]"),
    ({"protected": ["lock"]}, "Policy.protected[0]", "not an absolute path", "abspath"),
    ({"hidden": [("/a", "/b")]}, "Policy.hidden[0]", "not a path", "give a str"),
    ({"hidden": ["/usr/share", "/usr/share/"]}, "Policy.hidden[1]", "named twice", "leave one"),
    ({"deny_write": ["/w/ci"]}, "Policy.deny_write[0]", "an absolute name", "relative"),
    ({"deny_write": ["ci/"]}, "Policy.deny_write[0]", "names a directory", "without a slash"),
    ({"deny_write": ["../ci"]}, "Policy.deny_write[0]", r"holds '\.\.'", "without"),
    ({"deny_write": ["."]}, "Policy.deny_write[0]", "names a directory", "without a slash"),
    ({"deny_write": ["ci", "./ci"]}, "Policy.deny_write[1]", "named twice", "leave one"),
    ({"symlinks": ["/a"]}, "Policy.symlinks[0]", "not a pair", "link's text"),
    ({"symlinks": [("/a", "")]}, "Policy.symlinks[0]", "a link's text is a path", "give text"),
    ({"symlinks": [("/a", "b\0")]}, "Policy.symlinks[0]", "a link's text is a path", "NUL"),
    ({"symlinks": [("/a", "b" * 5000)]}, "Policy.symlinks[0]", "5000 bytes long", "at most 4095"),
    ({"symlinks": [("/a", "b"), ("/a/", "c")]}, "Policy.symlinks[1]", "two links at /a", "leave one"),
    ({"path": ["bin"]}, "Policy.path[0]", "not an absolute path", "abspath"),
    ({"path": ["/opt/a:b"]}, "Policy.path[0]", "holds ':'", "show it elsewhere"),
    ({"inherit": ["LD_PRELOAD"]}, "Policy.inherit[0]", "loader or an interpreter", "inherit_unsafe"),
    ({"inherit": ["TZ", "PATH"]}, "Policy.inherit[1]", "is set by us", "Policy.path"),
    ({"inherit": ["*"]}, "Policy.inherit[0]", "takes everything", "name what is needed"),
    ({"inherit": [""]}, "Policy.inherit[0]", "not a name", "as text"),
    ({"inherit": ["TZ"], "deterministic": True}, "Policy.inherit[0]", "is fixed", "leave one"),
    ({"syscalls": [3]}, "Policy.syscalls[0]", "not a name", "as text"),
    ({"syscalls": ["io_uring"]}, "Policy.syscalls[0]", "no such group", "aio, netlink"),
    # ---- places that are the box's or the kernel's ----
    ({"readable": ["/"]}, "Policy.readable[0]", "shows the whole host", "ReadPolicy.HOST"),
    ({"writable": [("/", "/mnt/host")]}, "Policy.writable[0]", "shows the whole host", "name the directories"),
    ({"readable": [("/proc/1/root", "/mnt/r")]}, "Policy.readable[0]", "shows the host's processes", "leave it out"),
    ({"writable": [("/dev/mem", "/mnt/m")]}, "Policy.writable[0]", "devices cannot be shown", "leave it out"),
    ({"writable": [("/sys/fs/cgroup/x", "/mnt/c")]}, "Policy.writable[0]", "kernel file system", "in readable"),
    ({"readable": ["/usr"]}, "Policy.readable[0]", "in every box already", "leave it out"),
    ({"writable": ["/etc"]}, "Policy.writable[0]", "would cover /etc/passwd", "leave it out: who writes there"),
    ({"writable": ["/usr"]}, "Policy.writable[0]", "in every box already", "leave it out: who writes there"),
    ({"writable": [("/opt/x", "/usr")]}, "Policy.writable[0]", "in every box already", "leave it out: who writes there"),
    ({"readable": ["/etc"]}, "Policy.readable[0]", "would cover /etc/passwd", "leave it out: the box has its own"),
    ({"readable": [("/a", "/etc")]}, "Policy.readable[0]", "would cover /etc/passwd", "'/mnt/etc'"),
    ({"writable": [("/a", "/dev/x")]}, "Policy.writable[0]", "would cover /dev", "'/mnt/x'"),
    ({"writable": [("/a", "/.roots/0")]}, "Policy.writable[0]", r"would cover /\.roots", "'/mnt/0'"),
    ({"readable": [("/a", "/workspace")]}, "Policy.readable[0]", "in every box already", "'/mnt/workspace'"),
    ({"hidden": ["/"]}, "Policy.hidden[0]", "would cover /proc of the box", "beneath it"),
    ({"hidden": ["/home"]}, "Policy.hidden[0]", "would cover /home/guest of the box", "beneath it"),
    ({"hidden": ["/workspace"]}, "Policy.hidden[0]", "would cover /workspace of the box", "beneath it"),
    # ---- fields that clash with each other ----
    ({"readable": ["/a"], "writable": [("/b", "/a")]}, "Policy.writable[0]", "in Policy.readable as well", "leave one"),
    ({"protected": ["/w/lock"]}, "Policy.protected[0]", "does not lie beneath a writable root", "leave it out"),
    ({"protected": ["/usr/lib"]}, "Policy.protected[0]", "does not lie beneath a writable root", "leave it out"),
    ({"writable": [("/w", "/mnt/w")], "protected": ["/w/x"]}, "Policy.protected[0]", "of the host", "guest sees it: /mnt/w/x$"),
    ({"writable": [("/w", "/mnt/w")], "protected": ["/w"]}, "Policy.protected[0]", "of the host", "guest sees it: /mnt/w$"),
    ({"writable": [("/tmp/w", "/w")], "protected": ["/tmp/w/x"]}, "Policy.protected[0]", "of the host", "guest sees it: /w/x$"),
    ({"readable": [("/tmp/r", "/r")], "hidden": ["/tmp/r/x"]}, "Policy.hidden[0]", "of the host", "guest sees it: /r/x$"),
    ({"readable": [("/srv/r", "/r")], "hidden": ["/srv/r/x"]}, "Policy.hidden[0]", "of the host", "guest sees it: /r/x$"),
    ({"protected": ["/srv/lock"]}, "Policy.protected[0]", "does not lie beneath", "as the guest sees it.* or leave it out$"),
    ({"protected": ["/tmp/lock"]}, "Policy.protected[0]", "/tmp is empty and private", "leave it out"),
    ({"protected": ["/workspace"]}, "Policy.protected[0]", "the workspace itself", "in readable"),
    (
        {"writable": ["/w"], "readable": ["/w/ro"], "protected": ["/w/ro/x"]},
        "Policy.protected[0]",
        r"Policy.readable\[0\] shows it read-only already",
        "leave it out",
    ),
    (
        {"writable": ["/w"], "hidden": ["/w/s"], "protected": ["/w/s/x"]},
        "Policy.protected[0]",
        r"Policy.hidden\[0\] hides it already",
        "leave one",
    ),
    ({"writable": ["/w/1"], "protected": ["/w/10/x"]}, "Policy.protected[0]", "does not lie beneath", "leave it out"),
    ({"hidden": ["/srv/x"]}, "Policy.hidden[0]", "nothing is shown there", "as the guest sees it"),
    ({"hidden": ["/proc/keys"]}, "Policy.hidden[0]", "/proc is the box's own", "leave it out"),
    ({"hidden": ["/tmp/x"]}, "Policy.hidden[0]", "/tmp is empty and private", "leave it out"),
    ({"hidden": ["/dev/shm/x"]}, "Policy.hidden[0]", "/dev/shm is the box's own", "leave it out"),
    ({"hidden": ["/usr/x"], "system": False}, "Policy.hidden[0]", "nothing is shown there", "leave it out"),
    ({"system": False, "read": ReadPolicy.HOST}, "Policy.system", "shows the system's programs", "leave one"),
    ({"symlinks": [("/x", "/usr")], "read": ReadPolicy.HOST}, "Policy.symlinks", "the host's own names", "leave one"),
    ({"symlinks": [("/usr/x", "y")]}, "Policy.symlinks[0]", "lies in what /usr shows", "make the link on the host"),
    ({"symlinks": [("/bin", "usr/bin")]}, "Policy.symlinks[0]", "in every box already", "/mnt/bin"),
    ({"symlinks": [("/r/x", "y")], "readable": ["/r"]}, "Policy.symlinks[0]", r"Policy.readable\[0\] shows", "elsewhere"),
    ({"symlinks": [("/r", "y")], "readable": ["/r/x"]}, "Policy.symlinks[0]", "is shown at /r/x", "elsewhere"),
    ({"symlinks": [("/l", "y"), ("/l/m", "z")]}, "Policy.symlinks[1]", r"lies beneath Policy.symlinks\[0\]", "leads to"),
    ({"symlinks": [("/tmp/l", "y")]}, "Policy.symlinks[0]", "/tmp is private in every run", "a directory there"),
    ({"path": ["/w/bin"], "writable": ["/w"]}, "Policy.path[0]", "the guest can write there", "in readable"),
    ({"path": ["/workspace/bin"]}, "Policy.path[0]", "the guest can write there", "in readable"),
    ({"changes": "disk"}, "Policy.changes", "no changes are kept apart", "writes=Writes.COMMIT"),
    ({"workspace_owner": "chown", "writes": Writes.COMMIT}, "Policy.workspace_owner", "stays as it is", "'idmap'"),
    ({"colour": "red"}, "Policy.colour", "no such field", "the fields are"),
    ({"preset": "light"}, "Policy.preset", "no such field", "the fields are"),
]
LIGHT: list[tuple[dict[str, Any], str, str, str]] = [
    ({"syscalls": ["aio"]}, "Policy.syscalls", "has no filter to widen", "leave it out"),
    ({"symlinks": [("/etc/x", "y")]}, "Policy.symlinks[0]", "lies in what /etc shows", "on the host"),
]


@pytest.mark.parametrize(
    ("preset", "given", "field", "reason", "remedy"),
    [("strict", *one) for one in STRICT] + [("light", *one) for one in LIGHT],
)
def test_it_is_refused_by_name(preset: str, given: dict[str, Any], field: str, reason: str, remedy: str) -> None:
    make = Policy.strict if preset == "strict" else Policy.light
    with pytest.raises(PolicyError) as caught:
        make(**given)
    error = caught.value
    assert error.field == field
    assert re.search(reason, error.reason), error.reason
    assert re.search(remedy, error.remedy), error.remedy
    assert error.value
    assert str(error) == f"{error.field}={error.value}: {error.reason}; {error.remedy}"


def test_the_table_is_long_enough() -> None:
    assert len(STRICT) + len(LIGHT) >= 60


def test_their_neighbours_pass() -> None:
    """What each rule is about, one step on its other side."""
    Policy.strict(protected=["/workspace/lock"], hidden=["/workspace/secret", "/usr/share", "/etc/ssl"])
    Policy.strict(writable=["/w"], protected=["/w/lock", "/w"])
    Policy.strict(writable=["/w"], hidden=["/w"])
    Policy.strict(writable=["/w", "/w/a/b"], readable=["/w/a"], protected=["/w/a/b/c"], hidden=["/w/a/b/c/d"])
    Policy.strict(readable=["/w"], writable=["/w"])
    Policy.strict(read=ReadPolicy.HOST, writable=["/srv/w"], hidden=["/srv/x", "/var/lib"], protected=["/srv/w/x"])
    Policy.strict(system=False, readable=["/usr/bin/true", "/lib64"], symlinks=[("/bin", "usr/bin"), ("/lib", "usr/lib")])
    Policy.strict(symlinks=[("/tmp/v/python", "/usr/bin/python3"), ("/etc/alternatives/x", "/usr/bin/y")])
    Policy.strict(path=["/opt/tool/bin", "/w/bin"], writable=["/w"], readable=["/w/bin"])
    Policy.strict(inherit=["TZ", "LC_*", "PYTHONPATH"], inherit_unsafe=True)
    Policy.strict(writes=Writes.COMMIT, changes="disk", deletion=Deletion.DENY, minimum_rung=Rung.LANDLOCK)
    Policy.strict(syscalls=["aio", "ptrace"])
    Policy.strict(deny_write=["ci", "deploy/prod.yaml"], on_hard_links="refuse", host_sockets="hide")
