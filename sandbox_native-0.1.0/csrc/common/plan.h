/* The plan: what a launcher is told before the first run. See wire.h for the rules that hold for all three headers. */

/* ---- the plan: one memfd, this header first, offsets are from its start, 0 is none ---- */

enum sn_plan_flag {
	SN_PLAN_ROOT = 1,        /* the launcher has the host's root: build with it, then become box_uid */
	SN_PLAN_PROBE = 4,       /* no template: answer with the probes' records and end */
	SN_PLAN_WARM = 16,       /* an interpreter is started in the root, and guests are clones of it */
	SN_PLAN_BARE = 8,        /* rung landlock: no namespace, no root of its own; no template or box operations */
};

enum sn_op_kind {
	SN_OP_DIR = 1,     /* target, mode */
	SN_OP_FILE = 2,    /* target, mode, data, size */
	SN_OP_SYMLINK = 3, /* target; data is the link's text */
	SN_OP_BIND = 4,    /* source on the host (in a box: in the root) -> target, a file or a directory, submounts included */
	SN_OP_TMPFS = 5,   /* target; data is the option string */
	SN_OP_PROC = 6,    /* target: a new instance for the pid namespace */
	SN_OP_MASK = 7,    /* target, where it exists: covered by something empty; source is a path inside the root that is empty
	                      and of the same kind (a file over a file, a directory over a directory). In the template the
	                      source is one that an earlier operation made */
	SN_OP_OVERLAY = 8, /* template: source, a directory on the host, through a read-only overlay: without its submounts, and no
	                      Unix socket in it can be connected to. flags, device and inode as for a bind */
	SN_OP_CHANGES = 9, /* box: an overlay over source, a directory in the root (kept aside, read-only, without submounts); what is
	                      changed goes to N/upper (N is mode, from 1 on) in the directory of changes. This and all that follows
	                      it waits for the request; no file system of its own (TMPFS, PROC) may follow it */
	SN_OP_MQUEUE = 11, /* box: target: the POSIX message queues of its own ipc namespace; a kernel without them is none of ours to mend */
	SN_OP_GUARD = 10,  /* box: target, where it exists, bound onto itself with flags: read-only, or (no flag) only so that it
	                      cannot be renamed or removed */
};

enum sn_op_flag {
	SN_OP_RDONLY = 1,
	SN_OP_NOSUID = 2,
	SN_OP_NODEV = 4,
	SN_OP_NOEXEC = 8,
	SN_OP_OPTIONAL = 16, /* bind: an absent source is skipped */
	SN_OP_IDMAP = 32,    /* on-disk owner (plan.owner_uid) shown as the guest, so new files are the owner's */
	SN_OP_SIZED = 64,    /* tmpfs: its size is the run's tmp_bytes; data holds the other options */
	SN_OP_NORECURSE = 256, /* bind: without the source's submounts */
};

struct sn_op {
	uint32_t kind;
	uint32_t flags;
	uint32_t mode;
	uint32_t source; /* offset of a string */
	uint32_t target; /* offset of a string, absolute in the new root */
	uint32_t data;   /* offset */
	uint32_t size;   /* bytes at data */
	uint32_t reserved;
	uint64_t device; /* bind: what the host validated; 0 with inode 0 is any */
	uint64_t inode;
};

enum sn_rule_flag {
	SN_RULE_OPTIONAL = 1, /* an absent path is skipped */
	SN_RULE_SELF = 2,     /* path is beneath the guest's own /proc/PID: added by the guest, for itself */
	SN_RULE_OWNED = 4,    /* SN_PLAN_BARE: init changes modes and times beneath it for the guest, whose own calls are refused */
};

struct sn_rule { /* of Landlock: what is permitted at and beneath a path in the box */
	uint64_t access; /* LANDLOCK_ACCESS_FS_* */
	uint32_t path;
	uint32_t flags;
	uint64_t device, inode; /* what the host validated; both 0: any */
};

struct sn_plan {
	uint32_t version;
	uint32_t size; /* of the whole memfd */
	uint32_t flags;
	uint32_t box_uid, box_gid;     /* host ids that the guest has; for a plain user the caller's own */
	uint32_t owner_uid, owner_gid; /* on-disk ids that SN_OP_IDMAP and a bound workspace map to the guest */
	uint32_t inside_uid, inside_gid;
	uint32_t template_at, template_count; /* struct sn_op: once, in the template */
	uint32_t box_at, box_count;           /* struct sn_op: in every box, by init */
	uint32_t filter_at, filter_count;     /* struct sock_filter */
	uint32_t groups_at, groups_count;     /* uint32_t offsets of strings: our directories in each cgroup hierarchy, removed at the end */
	uint32_t hostname_at;
	uint32_t workspace_at; /* where a host workspace is attached, and what a private one is */
	uint32_t enter_at; /* v2: the cgroup.procs file that the template enters once, so that init is not in a slot's leaf */
	uint32_t warm_at, warm_argc, warm_envc; /* uint32_t offsets of strings: argv and environment of the interpreter */
	uint32_t reserved;
	uint64_t core_bytes; /* RLIMIT_CORE, which the filter keeps a guest from changing */
	uint64_t tmp_bytes; /* default size of SN_OP_SIZED mounts */
	uint32_t inotify_instances; /* of all boxes together, where they are the caller's own user; 0: as the kernel has it */
	uint32_t changes_at; /* the directory in which a box keeps overlays' changes until it is unmounted again: the run's own mount, or a
	                        tmpfs with the options of the SN_OP_TMPFS at workspace_at and the run's size; 0: the plan has none */
	uint64_t landlock_handled, landlock_scoped; /* both 0: no Landlock */
	uint64_t landlock_workspace; /* access at the workspace that a run brings */
	uint32_t rules_at, rules_count;     /* struct sn_rule */
	uint32_t explain_at, explain_count; /* struct sock_filter: what the supervisor answers with where the plan's filter asks it; 0: no explain */
};
