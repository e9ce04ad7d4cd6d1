"""What a box shows: the operations that make its root, and those that every box adds. Pure.

What the host's file tree looks like comes in as a HostTree (hosttree.py reads it), so that the same facts always
give the same plan.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from sandbox_native import paths
from sandbox_native._native import lib
from sandbox_native.environment import HOME, USER, WORKSPACE
from sandbox_native.plan import INSIDE_UID, Op
from sandbox_native.policy import Policy
from sandbox_native.rules import Access

_READ_ONLY: Final = lib.SN_OP_RDONLY | lib.SN_OP_NOSUID | lib.SN_OP_NODEV
_SAFE: Final = lib.SN_OP_NOSUID | lib.SN_OP_NODEV
_SIZED: Final = _SAFE | lib.SN_OP_SIZED

SYSTEM: Final = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt")

# Directories of /etc that installed programs reach by links out of /usr (Debian's java, python and perl packages; the crypto
# policy and certificates of Fedora's). All are readable by everybody on the host. Trailing * is a prefix.
SHARED_ETC: Final = (
    "/etc/alternatives",
    "/etc/ssl/certs",
    "/etc/pki/tls/certs",
    "/etc/pki/ca-trust/extracted",
    "/etc/pki/java",
    "/etc/crypto-policies",
    "/etc/java-*",
    "/etc/python3*",
    "/etc/perl",
)
# Files copied by content, so that a link or a later change on the host plays no part.
COPIED_ETC: Final = (
    "/etc/localtime",
    "/etc/ld.so.cache",
    "/etc/ld-musl-*",
    "/etc/ssl/openssl.cnf",
    "/etc/services",
    "/etc/protocols",
)

_DEVICES: Final = ("null", "zero", "full", "random", "urandom")
_DEVICE_LINKS: Final = {"fd": "", "stdin": "/0", "stdout": "/1", "stderr": "/2"}
_SHM_BYTES: Final = 64 << 20
_INODES: Final = 65536

# Files of /proc that tell of the whole host to everybody, or that everybody may write (pressure: a trigger there costs
# the kernel a thread). Each mask costs a run about 10 us, so what the guest cannot open anyway is not here: it has no
# capability, and the owner of kcore, kmsg, timer_list, kpage*, slabinfo, sysrq-trigger and of all below sys, irq, bus
# and fs is the host's root, which the guest never is and whose id its user namespace does not map.
_MASKED: Final = (
    ("/proc/keys", False),
    ("/proc/key-users", False),
    ("/proc/kallsyms", False),
    ("/proc/modules", False),
    ("/proc/cmdline", False),
    ("/proc/sched_debug", False),
    ("/proc/pressure", True),
)
_EMPTY: Final = "/.empty"

# A root of the policy beneath one of these would be covered by the box's own tmpfs: the template keeps it aside, and each
# box binds it on top and covers where it was kept.
_OWN: Final = ("/tmp", HOME, WORKSPACE)
_ASIDE: Final = "/.roots"


@dataclass(frozen=True, slots=True)
class Root:
    """One directory or file of the host that the policy shows: what was looked at when the plan was made."""

    source: str  # resolved: no component is a link
    inside: str
    writable: bool
    device: int
    inode: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """One thing of the policy's that a box shows, guards or covers: what was looked at when the plan was made."""

    kind: Literal["bind", "overlay", "dir", "link", "guard", "mask"]
    inside: str
    source: str = ""  # on the host, resolved: no component is a link; of a link its text
    access: Access = Access.READABLE
    device: int = 0
    inode: int = 0
    directory: bool = True
    field: str = ""  # the policy's, for messages


@dataclass(frozen=True, slots=True)
class HostTree:
    """Facts about the host's files."""

    links: Mapping[str, str]  # of SYSTEM, those that are links: path -> text
    directories: frozenset[str]  # of SYSTEM and SHARED_ETC, those that are directories
    files: Mapping[str, bytes]  # of COPIED_ETC
    proc: frozenset[str]  # of the masked names, those that are there
    roots: tuple[Root, ...] = ()
    shown: tuple[Shown, ...] = ()  # the policy's, in the order in which they are mounted


def template_ops(policy: Policy, tree: HostTree, root: bool) -> list[Op]:
    """The root file system; `root`: the host's user is root. Directories that lead to a target are the launcher's to make."""
    ops = [op for path in SYSTEM for op in _system(path, tree)]
    if policy.preset == "light":
        ops.append(_bind("/etc", _READ_ONLY))
    else:
        ops += _made_up_etc(tree, policy.hostname)
    ops += _devices()
    # A user namespace may mount a /proc of its own only where it already sees a whole one. Every box covers this one.
    ops.append(_bind("/proc", _SAFE | lib.SN_OP_NOEXEC | (lib.SN_OP_NORECURSE if root else 0)))
    ops += (Op(lib.SN_OP_DIR, path, mode=0o755) for path in ("/tmp", HOME, WORKSPACE, "/run", "/dev/shm"))
    if not any(paths.contains("/var/tmp", shown.inside) for shown in tree.roots):
        ops.append(_link("/var/tmp", "/tmp"))
    ops.append(Op(lib.SN_OP_DIR, f"{_EMPTY}/dir", mode=0))
    ops.append(Op(lib.SN_OP_FILE, f"{_EMPTY}/file", mode=0))
    ops += (_root(shown, shown.inside, root) for shown in _outer_first(tree) if not _is_covered(shown))
    ops += (_root(shown, f"{_ASIDE}/{i}", root) for i, shown in enumerate(_outer_first(tree)) if _is_covered(shown))
    return ops


def box_ops(policy: Policy, tree: HostTree) -> list[Op]:
    """What init mounts in every box, on top of the template's root."""
    owner = f"uid={INSIDE_UID},gid={INSIDE_UID}"
    inodes = f"nr_inodes={_INODES}"
    ops = [
        Op(lib.SN_OP_TMPFS, "/tmp", _SIZED, data=f"mode=1777,{inodes}".encode()),
        Op(lib.SN_OP_TMPFS, HOME, _SIZED, data=f"mode=0700,{owner},{inodes}".encode()),
        Op(lib.SN_OP_TMPFS, WORKSPACE, _SIZED, data=f"mode=0755,{owner},{inodes}".encode()),
        Op(lib.SN_OP_TMPFS, "/dev/shm", _SAFE | lib.SN_OP_NOEXEC, data=f"mode=1777,size={_SHM_BYTES},{inodes}".encode()),
        Op(lib.SN_OP_PROC, "/proc", _SAFE | lib.SN_OP_NOEXEC),
    ]
    aside = [(i, shown) for i, shown in enumerate(_outer_first(tree)) if _is_covered(shown)]
    ops += (Op(lib.SN_OP_BIND, shown.inside, source=f"{_ASIDE}/{i}") for i, shown in aside)
    if aside:
        ops.append(Op(lib.SN_OP_MASK, _ASIDE, source=f"{_EMPTY}/dir"))
    if policy.preset == "strict":
        for path, directory in _MASKED:
            if path in tree.proc:
                ops.append(Op(lib.SN_OP_MASK, path, source=f"{_EMPTY}/{'dir' if directory else 'file'}"))
    return ops


def masked_paths() -> tuple[str, ...]:
    """Every path that could be masked: whether it is there is the host tree's to say."""
    return tuple(path for path, _ in _MASKED)


def _bind(path: str, flags: int) -> Op:
    return Op(lib.SN_OP_BIND, path, flags, source=path)


def _link(path: str, text: str) -> Op:
    return Op(lib.SN_OP_SYMLINK, path, data=text.encode("utf-8", "surrogateescape"))


def _system(path: str, tree: HostTree) -> Iterator[Op]:
    if path in tree.links:
        yield _link(path, tree.links[path])
    elif path in tree.directories:
        yield _bind(path, _READ_ONLY)


def _outer_first(tree: HostTree) -> list[Root]:
    return sorted(tree.roots, key=lambda shown: shown.inside.count("/"))


def _is_covered(shown: Root) -> bool:
    return any(paths.contains(own, shown.inside) for own in _OWN)


def _root(shown: Root, target: str, root: bool) -> Op:
    flags = _SAFE | (lib.SN_OP_IDMAP if root else 0) if shown.writable else _READ_ONLY
    return Op(lib.SN_OP_BIND, target, flags, source=shown.source, device=shown.device, inode=shown.inode)


def _made_up_etc(tree: HostTree, hostname: str) -> Iterator[Op]:
    for path, text in _etc_texts(hostname):
        yield Op(lib.SN_OP_FILE, path, mode=0o644, data=text.encode())
    for path, data in tree.files.items():
        yield Op(lib.SN_OP_FILE, path, mode=0o644, data=data)
    for path in sorted(tree.directories):
        if path.startswith("/etc/"):
            yield _bind(path, _READ_ONLY | lib.SN_OP_OPTIONAL)
    yield _link("/etc/mtab", "/proc/self/mounts")
    yield _link("/etc/os-release", "../usr/lib/os-release")


def _etc_texts(hostname: str) -> Iterator[tuple[str, str]]:
    none = "/usr/sbin/nologin"
    yield (
        "/etc/passwd",
        f"root:x:0:0:root:/root:{none}\n"
        f"{USER}:x:{INSIDE_UID}:{INSIDE_UID}:{USER}:{HOME}:/bin/sh\n"
        f"nobody:x:65534:65534:nobody:/nonexistent:{none}\n",
    )
    yield "/etc/group", f"root:x:0:\n{USER}:x:{INSIDE_UID}:\nnogroup:x:65534:\n"
    yield "/etc/hosts", f"127.0.0.1 localhost {hostname}\n::1 localhost ip6-localhost ip6-loopback\n"
    yield "/etc/hostname", f"{hostname}\n"
    databases = "passwd group shadow hosts networks protocols services ethers rpc"
    yield "/etc/nsswitch.conf", "".join(f"{name}: files\n" for name in databases.split())


def _devices() -> Iterator[Op]:
    # The host's own nodes. Read-only says nothing about writing to a device; it keeps the node's times and mode as they are.
    for name in _DEVICES:
        yield _bind(f"/dev/{name}", lib.SN_OP_RDONLY | lib.SN_OP_NOSUID)
    for name, tail in _DEVICE_LINKS.items():
        yield _link(f"/dev/{name}", f"/proc/self/fd{tail}")
