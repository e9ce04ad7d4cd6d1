"""Refused paths and the rule that each is due to (sandbox_native/refused_paths.py)."""

from __future__ import annotations

import errno
from collections.abc import Mapping

import pytest

from sandbox_native import Deletion, Policy
from sandbox_native.home import OF_THE_HOST
from sandbox_native.refused_calls import Noted
from sandbox_native.refused_paths import Kind, PathRules
from sandbox_native.rules import Access
from sandbox_native.shown import Shown

HOST: Mapping[str, Kind] = {
    "/etc/shadow": "file",
    "/etc/own.conf": "file",
    "/data": "directory",
    "/data/.bashrc": "file",
    "/home/you": "directory",
    "/home/you/.ssh": "directory",
    "/home/you/.ssh/id": "file",
    "/boot/grub": "directory",
    "/var": "directory",
    "/root": "directory",
    "/root/.bashrc": "file",
    "/tmp/in.json": "file",
    "/srv": "directory",
    "/srv/data/a": "file",
    "/srv/out/.git/hooks": "directory",
    "/run/docker.sock": "socket",
    "/srv/data/agent": "socket",
    "/dev/kvm": "other",
    "/sys/devices/system/cpu/online": "file",
    "/dev/stdin": "other",
    "/srv/data/secret": "file",
    "/home/me/.ssh": "directory",
}
POLICY = Policy.strict(
    readable=["/srv/data", ("/srv/ro", "/mnt/ro"), ("/usr/lib/own", "/mnt/lib")],
    writable=["/srv/out"],
    protected=["/srv/out/lock"],
    hidden=["/srv/data/secret"],
)
SHOWN = (
    Shown(kind="guard", inside="/srv/out/.git", access=Access.WRITABLE),
    Shown(kind="guard", inside="/srv/out/.git/hooks", access=Access.PROTECTED),
    Shown(kind="mask", inside="/home/me/.ssh", field="Policy.read"),
)
SECRETS = (*OF_THE_HOST, "/home/you/.ssh", "/home/none/.ssh")
O_RDONLY, O_WRONLY, O_CREAT = 0, 1, 0o100


def noted(error: int, path: str, name: str = "openat", flags: int = O_RDONLY, other: str = "") -> Noted:
    arguments = (0, 0, flags, 0, 0, 0)
    return Noted(name=name, number=0, error=-error, count=2, arguments=arguments, path=path, other=other)


def judged(call: Noted, policy: Policy = POLICY) -> tuple[str, str | None] | None:
    denial = PathRules(policy, SHOWN, HOST.get, SECRETS).denial_of(call)
    return None if denial is None else (denial.reason, denial.allow)


SENSIBLE = "nothing sensible allows it"
NOT_IN_VIEW = "exists on the host, not in the view"
WRITES = O_WRONLY | O_CREAT
CASES = [
    (noted(errno.EBUSY, "/srv/out/.git", "rename", other="/srv/out/x"), "/srv/out/.git or /srv/out/x stays where", None),
    (noted(errno.ENOENT, "/etc/own.conf"), f"/etc/own.conf {NOT_IN_VIEW}", 'readable=["/etc/own.conf"]'),
    (noted(errno.ENOENT, "/data/.bashrc"), f"/data/.bashrc {NOT_IN_VIEW}", 'readable=["/data/.bashrc"]'),
    (noted(errno.ENOENT, "/tmp/in.json", "statx"), "(/tmp is the box's own)", 'readable=["/tmp/in.json"]'),
    (noted(errno.ENOENT, "/data/.bashrc", flags=O_WRONLY), f"/data/.bashrc {NOT_IN_VIEW}", 'writable=["/data/.bashrc"]'),
    (noted(errno.ENOENT, "/data/new", flags=WRITES), f"/data {NOT_IN_VIEW}", 'writable=["/data"]'),
    (noted(errno.ENOENT, "/data/new", "mkdir"), f"/data {NOT_IN_VIEW}", 'writable=["/data"]'),
    (noted(errno.ENOENT, "/etc/shadow"), f"/etc/shadow {NOT_IN_VIEW} (/etc is the box's own); {SENSIBLE}", None),
    (noted(errno.ENOENT, "/root/.bashrc"), f"/root/.bashrc {NOT_IN_VIEW}; {SENSIBLE}", None),
    (noted(errno.ENOENT, "/root/new", "mkdir"), f"/root {NOT_IN_VIEW}; {SENSIBLE}", None),
    (noted(errno.ENOENT, "/home/you"), f"/home/you {NOT_IN_VIEW}; {SENSIBLE}", None),
    (noted(errno.ENOENT, "/home/you/.ssh/id"), f"/home/you/.ssh/id {NOT_IN_VIEW}; {SENSIBLE}", None),
    (noted(errno.ENOENT, "/boot/grub", "mkdir"), f"/boot/grub {NOT_IN_VIEW}; {SENSIBLE}", None),
    (noted(errno.ENOENT, "/var", "mkdir"), f"/var {NOT_IN_VIEW}; {SENSIBLE}", None),
    (noted(errno.EROFS, "/mnt/lib/x", "mkdir"), f"shown read-only (Policy.readable[2]); {SENSIBLE}", None),
    (noted(errno.ENOENT, "/run/docker.sock", "connect"), f"/run/docker.sock {NOT_IN_VIEW}", None),
    (noted(errno.ENOENT, "/sys/devices/system/cpu/online"), f"/sys/devices/system/cpu/online {NOT_IN_VIEW}", None),
    (noted(errno.ENOENT, "/dev/kvm"), f"/dev/kvm {NOT_IN_VIEW}", None),
    (noted(errno.ENOENT, "/srv/data/secret"), "/srv/data/secret is hidden (Policy.hidden[0])", None),
    (noted(errno.ENOENT, "/home/me/.ssh"), "/home/me/.ssh is hidden (Policy.read)", None),
    (noted(errno.EROFS, "/srv/data/a", flags=O_WRONLY), "shown read-only (Policy.readable[0])", 'writable=["/srv/data"]'),
    (noted(errno.EROFS, "/mnt/ro/x", "mkdir"), "shown read-only (Policy.readable[1])", 'writable=[["/srv/ro", "/mnt/ro"]]'),
    (noted(errno.EROFS, "/srv/out/.git/hooks/post-commit", flags=WRITES), "/srv/out/.git/hooks/post-commit is protected", None),
    (noted(errno.EROFS, "/srv/out/lock", flags=O_WRONLY), "/srv/out/lock is protected (Policy.protected[0])", None),
    (noted(errno.EROFS, "/workspace/.git/hooks", "mkdir"), "/workspace/.git/hooks is protected", None),
    (noted(errno.EROFS, "/usr/bin/x", flags=WRITES), "/usr is read-only in every box", None),
    (noted(errno.EROFS, "/etc/passwd", flags=O_WRONLY), "/etc is read-only in every box", None),
    (noted(errno.EROFS, "/new", "mkdir"), "the box's root cannot be written", None),
    (noted(errno.EROFS, "/srv", "mkdir"), "the box's root cannot be written", 'writable=["/srv"]'),
    (noted(errno.EACCES, "/srv/data/a"), "does not let the guest in", None),
    (noted(errno.ECONNREFUSED, "/srv/data/agent", "connect"), "a socket of the host's", 'host_sockets="show"'),
    (noted(errno.EROFS, "/tmp/x", "rename", other="/usr/x"), "/tmp/x is protected", None),
]


@pytest.mark.parametrize("call,reason,allow", CASES)
def test_a_refused_path_is_due_to_its_rule(call: Noted, reason: str, allow: str | None) -> None:
    found = judged(call)
    assert found is not None and reason in found[0] and found[1] == allow


@pytest.mark.parametrize(
    "call",
    [
        noted(errno.ENOENT, "/nothing"),
        noted(errno.ENOENT, "/srv/data/none"),  # shown: it is not on the host either
        noted(errno.ENOENT, "/usr/lib/none.so"),
        noted(errno.ENOENT, "/nothing/new", "mkdir"),
        noted(errno.ENOENT, "/dev/stdin"),  # leads to the guest's own descriptor
        noted(errno.ENOENT, "/proc/1/exe"),
        noted(errno.EACCES, "/nothing"),
        noted(errno.ECONNREFUSED, "/srv/data/none", "connect"),
        noted(errno.ENOENT, ""),
        noted(errno.ENOENT, "a relative one"),
    ],
)
def test_what_the_policy_has_nothing_to_do_with_is_no_denial(call: Noted) -> None:
    assert judged(call) is None


def test_the_second_path_may_be_the_one() -> None:
    found = PathRules(POLICY, SHOWN, HOST.get).denial_of(noted(errno.ENOENT, "/nothing", "rename", other="/root/.bashrc"))
    assert found is not None and (found.name, found.kind, found.count) == ("/root/.bashrc", "path", 2)


def test_a_path_is_told_without_dots() -> None:
    found = PathRules(POLICY, SHOWN, HOST.get).denial_of(noted(errno.ENOENT, "/usr/../etc//./shadow"))
    assert found is not None and found.name == "/etc/shadow"


def test_removing_is_due_to_deletion_where_that_is_denied() -> None:
    call = noted(errno.EACCES, "/srv/out/x", "unlinkat")
    denying = Policy.strict(writable=["/srv/out"], deletion=Deletion.DENY)
    assert judged(call, denying) == ("nothing can be removed or renamed there (Policy.deletion)", 'deletion="allow"')
    assert judged(call) is None


def test_an_address_outside_is_due_to_the_boxs_own_network() -> None:
    found = PathRules(POLICY, SHOWN, HOST.get).denial_of(noted(errno.ENETUNREACH, "192.0.2.1:80", "connect"))
    assert found is not None and (found.kind, found.name, found.arguments) == ("syscall", "connect", "192.0.2.1:80")
    assert "nothing but lo" in found.reason and found.allow is None


def test_the_flags_of_an_open_are_told() -> None:
    found = PathRules(POLICY, SHOWN, HOST.get).denial_of(noted(errno.ENOENT, "/etc/shadow", flags=0o2000000))
    assert found is not None and found.arguments == "openat O_RDONLY"
