/* What travels between the host, the launcher and init: fixed-width structs, version first, size asserted.
 *
 * Read by the compiler (launcher and extension) and by cffi's cdef, so: no include, no macro with
 * arguments, no bit-field. Python fills a plan and a request, C obeys them: a number that is not here is not decided
 * in C. Numbers are never reused.
 *
 *   host --START{plan}--> launcher          once for each plan; the launcher forks the template from it
 *   host --SLOT{gauges}--> template         the template forks a slot; the slot answers READY or FAILURE
 *   host --BOX{channel}--> init             on the slot's socket; init answers STARTED{pidfd} up the channel
 *   host --struct sn_request--> init        down the channel, with the guest's descriptors
 *   init --struct sn_report--> host         up the channel, once
 *   host --BIND{path}--> launcher           a detached mount of a host directory comes back
 */

enum {
	SN_WIRE_VERSION = 1,
	SN_ITEM_BYTES = 128,    /* of the name in a failure record, its NUL included */
	SN_INLINE_BYTES = 65536, /* a longer request body travels in a memfd */
	SN_MAX_RLIMITS = 16,
	SN_MAX_GAUGES = 16,
};

/* ---- failure record: where, why, and on what ---- */

enum sn_stage {
	SN_STAGE_NONE = 0,
	SN_STAGE_SPAWN = 1,      /* host: starting the launcher */
	SN_STAGE_CHANNEL = 2,    /* either side: a message could not be sent or read */
	SN_STAGE_PLAN = 3,       /* launcher: the plan is not one that it understands */
	SN_STAGE_USERNS = 4,
	SN_STAGE_MOUNTNS = 5,
	SN_STAGE_MOUNT = 6,      /* one mount of the template or of a box; item is its target */
	SN_STAGE_PIVOT = 7,
	SN_STAGE_CREDS = 8,      /* uid, gid, groups, capabilities, securebits, no_new_privs */
	SN_STAGE_NETNS = 9,
	SN_STAGE_CGROUP = 10,    /* entering or reading a control group */
	SN_STAGE_CLONE = 11,     /* starting init or the guest in its namespaces */
	SN_STAGE_HOSTNAME = 12,
	SN_STAGE_RLIMIT = 13,    /* item is the resource's name */
	SN_STAGE_SECCOMP = 14,
	SN_STAGE_KEYRING = 15,
	SN_STAGE_FILES = 16,     /* placing `files`; item is the file's name */
	SN_STAGE_WORKSPACE = 17, /* binding or attaching a host directory */
	SN_STAGE_CWD = 18,
	SN_STAGE_STDIO = 19,
	SN_STAGE_EXEC = 20,      /* item is the program */
	SN_STAGE_REQUEST = 21,   /* init: the request is not one that it understands */
	SN_STAGE_LOST = 22,      /* host: a process of ours ended without a report */
	SN_STAGE_SESSION = 23,   /* setsid, signals, umask */
	SN_STAGE_IDMAP = 24,     /* an idmapped mount; item is the directory */
};

struct sn_failure {
	uint32_t stage;
	int32_t error; /* errno */
	char item[SN_ITEM_BYTES];
};

/* ---- the plan: one memfd, this header first, offsets are from its start, 0 is none ---- */

enum sn_plan_flag {
	SN_PLAN_ROOT = 1,        /* the launcher has the host's root: build with it, then become box_uid */
	SN_PLAN_PROBE = 4,       /* no template: answer with the probes' records and end */
};

enum sn_op_kind {
	SN_OP_DIR = 1,     /* target, mode */
	SN_OP_FILE = 2,    /* target, mode, data, size */
	SN_OP_SYMLINK = 3, /* target; data is the link's text */
	SN_OP_BIND = 4,    /* source on the host (in a box: in the root) -> target, a file or a directory, submounts included */
	SN_OP_TMPFS = 5,   /* target; data is the option string */
	SN_OP_PROC = 6,    /* target: a new instance for the pid namespace */
	SN_OP_MASK = 7,    /* target, where it exists: covered by something empty; source is a path inside the root that is empty
	                      and of the same kind (a file over a file, a directory over a directory) */
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
	uint64_t tmp_bytes; /* default size of SN_OP_SIZED mounts */
	uint32_t inotify_instances; /* of all boxes together, where they are the caller's own user; 0: as the kernel has it */
	uint32_t reserved;
};

/* ---- control messages (SOCK_SEQPACKET; descriptors by SCM_RIGHTS) ---- */

enum sn_verb {
	SN_START = 1, /* fds: plan memfd, template control socket */
	SN_SLOT = 2,  /* fds: slot control socket, then one for each gauge */
	SN_BOX = 3,   /* fds: the box's channel */
	SN_BIND = 4,  /* path; answered with a detached mount */
};

enum sn_gauge {
	SN_GAUGE_NONE = 0,
	SN_GAUGE_PROCS = 1,        /* v1: write "0" to enter; one for each hierarchy */
	SN_GAUGE_GROUP = 2,        /* v2: directory, for CLONE_INTO_CGROUP */
	SN_GAUGE_CPU_NS = 3,       /* v1 cpuacct.usage */
	SN_GAUGE_CPU_USER_NS = 4,  /* v1 cpuacct.usage_user */
	SN_GAUGE_CPU_SYS_NS = 5,   /* v1 cpuacct.usage_sys */
	SN_GAUGE_CPU_STAT = 6,     /* v2 cpu.stat */
	SN_GAUGE_MEMORY_STAT = 7,  /* v1 and v2 memory.stat */
	SN_GAUGE_OOM_CONTROL = 8,  /* v1 memory.oom_control: "oom_kill N" */
	SN_GAUGE_OOM_EVENT = 9,    /* v1 eventfd */
	SN_GAUGE_MEMORY_EVENTS = 10, /* v2 memory.events: "oom_kill N", POLLPRI on change */
	SN_GAUGE_PIDS = 11,        /* pids.current */
	SN_GAUGE_CPU_GROUP = 13,   /* v1: cgroup.procs of a group below the slot's in the cpu hierarchy, see SN_REQUEST_CPU_GROUP */
	SN_GAUGE_PEAK = 12,        /* v1 memory.max_usage_in_bytes, v2 memory.peak; set back by init before the run */
};

struct sn_control {
	uint32_t version;
	uint32_t verb;
	uint32_t flags;    /* SN_BIND: enum sn_op_flag */
	uint32_t gauges;   /* SN_SLOT: how many */
	uint32_t gauge[SN_MAX_GAUGES];
	uint64_t device, inode; /* SN_BIND: what the host validated */
	char path[4096];        /* SN_BIND */
};

struct sn_answer { /* to SN_START (ready), SN_SLOT (ready) and SN_BIND (fd: the mount) */
	uint32_t version;
	int32_t pid; /* of the process that answers, as the launcher's pid namespace counts */
	struct sn_failure failure; /* stage SN_STAGE_NONE: it worked */
};

/* ---- the request: header, then a body of NUL-terminated strings and file records ---- */

enum sn_request_flag {
	SN_REQUEST_BODY_FD = 1,   /* the body is in a memfd, the first descriptor after stdin, stdout, stderr */
	SN_REQUEST_WORKSPACE = 2, /* a detached mount follows (after the memfd, if there is one) */
	SN_REQUEST_COLLECT = 4,   /* send a descriptor of the workspace's root with the report */
	SN_REQUEST_CPU_GROUP = 16, /* v1: the guest enters SN_GAUGE_CPU_GROUP, so that its quota does not slow init down */
	SN_REQUEST_SAMPLE = 8,    /* no cgroup: keep memory and CPU limits by sampling */
};

enum sn_rlimit_flag {
	SN_RLIMIT_KEEP = 1, /* one that cannot be raised stays at its hard limit, and the report says so */
};

struct sn_rlimit {
	uint32_t resource; /* RLIMIT_* */
	uint32_t flags;
	uint64_t value;    /* soft and hard */
};

struct sn_request {
	uint32_t version;
	uint32_t flags;
	uint64_t wall_ns;
	uint64_t cpu_ns;       /* 0: none */
	uint64_t memory_bytes; /* for SN_REQUEST_SAMPLE; 0: none */
	uint64_t tmp_bytes;
	uint32_t cpus;         /* how many cores the guest can use at once: spaces the CPU checks */
	uint32_t rlimit_count;
	struct sn_rlimit rlimits[SN_MAX_RLIMITS];
	uint64_t body_bytes;
	/* the body, in this order: cwd; candidates (paths tried for execve); argv; env; file records */
	uint32_t candidates, argc, envc, files;
};

struct sn_file { /* 8-byte aligned within the body, followed by the name with its NUL, then the data */
	uint64_t size; /* of data */
	uint32_t name_bytes; /* its NUL included */
	uint32_t mode;
};

enum sn_request_verb { /* one uint32_t down the channel while the guest runs */
	SN_END_CANCEL = 1,
	SN_END_OUTPUT = 2,
};

/* ---- the report ---- */

enum sn_report_kind {
	SN_REPORT_STARTED = 1, /* the box is taken: with init's pidfd, and what holds so far */
	SN_REPORT_FAILED = 2,  /* we failed: see failure; the guest did not run */
	SN_REPORT_ENDED = 3,   /* the guest ran, and its whole tree is dead and reaped */
};

enum sn_ended_by {
	SN_BY_EXIT = 1, /* the main process ended by itself: wait_status */
	SN_BY_WALL = 2,
	SN_BY_CPU = 3,
	SN_BY_MEMORY = 4,  /* the group's OOM count rose, or the sampler saw the limit passed */
	SN_BY_CANCEL = 5,
	SN_BY_OUTPUT = 6,
	SN_BY_FILTER = 7,  /* a call that our filter ends: forbidden_* */
};

enum sn_held { /* bits: what init and the guest's start really did */
	SN_HELD_USER = 1,
	SN_HELD_MOUNT = 2,
	SN_HELD_PID = 4,
	SN_HELD_IPC = 8,
	SN_HELD_UTS = 16,
	SN_HELD_NET = 32,
	SN_HELD_CGROUP_NS = 64,
	SN_HELD_ROOT = 128,       /* the template is the root and the old one is gone */
	SN_HELD_PROC = 256,       /* a /proc of its own */
	SN_HELD_CAPS = 512,
	SN_HELD_NO_NEW_PRIVS = 1024,
	SN_HELD_SECUREBITS = 2048,
	SN_HELD_SECCOMP = 4096,
	SN_HELD_RLIMITS = 8192,
	SN_HELD_KEYRING = 16384,
	SN_HELD_SESSION = 32768,  /* setsid, signals default, umask */
	SN_HELD_FDS = 65536,      /* only 0, 1, 2 */
	SN_HELD_GROUP = 131072,   /* the guest is in its control group */
	SN_HELD_PROC_SUBSET = 262144, /* /proc shows processes only: the full one was refused */
	SN_HELD_LISTENER = 524288,    /* the filter reports what it ends */
	SN_HELD_NO_GROUPS = 1048576,  /* no supplementary groups */
	SN_HELD_NET_UNUSED = 2097152, /* the network namespace was made for an earlier box that left no trace in it */
};

struct sn_report {
	uint32_t version;
	uint32_t kind;
	uint32_t ended_by;
	int32_t wait_status; /* of the main process, as wait4 gives it */
	uint64_t wall_ns;
	uint64_t cpu_ns, user_ns, system_ns;       /* of the control group; without one the most that was sampled or reaped, 0, 0 */
	uint64_t rusage_user_ns, rusage_system_ns; /* of what init reaped, their reaped children included */
	uint64_t maxrss_bytes;  /* largest single process */
	uint64_t sampled_bytes; /* largest sampled sum of anonymous and shared memory, 0: never sampled */
	uint64_t group_peak_bytes; /* the group's own peak, page cache included; 0: unknown */
	uint64_t oom_kills;     /* during this run */
	uint64_t voluntary_switches, involuntary_switches;
	uint64_t rlimits_kept;  /* bit i: request.rlimits[i] could not be set as asked; the hard limit stays */
	uint32_t killed;        /* processes still alive when the run ended */
	uint32_t peak_processes;
	uint32_t held;          /* enum sn_held */
	uint32_t forbidden_arch; /* AUDIT_ARCH_* */
	int32_t forbidden_nr;
	int32_t reserved;
	struct sn_failure failure;
};

/* ---- probes (SN_PLAN_PROBE): one answer for each, in this order ---- */

enum sn_probe {
	SN_PROBE_USERNS = 0,
	SN_PROBE_MOUNT = 1,       /* a tmpfs in a mount namespace of its own */
	SN_PROBE_PROC = 2,        /* a new /proc */
	SN_PROBE_PROC_SUBSET = 3,
	SN_PROBE_NETNS = 4,       /* with lo brought up */
	SN_PROBE_SECCOMP = 5,
	SN_PROBE_LISTENER = 6,    /* seccomp user notification */
	SN_PROBE_PIDFD = 7,
	SN_PROBE_CLOSE_RANGE = 8,
	SN_PROBE_OPENAT2 = 9,
	SN_PROBE_MOUNT_SETATTR = 10,
	SN_PROBE_IDMAP = 11,      /* an idmapped mount of plan.workspace_at's directory */
	SN_PROBE_LANDLOCK = 12,   /* error holds -ABI when it works */
	SN_PROBE_CGROUPNS = 13,
	SN_PROBE_RESOURCE = 14,   /* CAP_SYS_RESOURCE */
	SN_PROBE_KEYRING = 15,
	SN_PROBE_COUNT = 16,
};

struct sn_probes {
	uint32_t version;
	int32_t error[SN_PROBE_COUNT]; /* 0 works, else errno; SN_PROBE_LANDLOCK: -ABI */
};
