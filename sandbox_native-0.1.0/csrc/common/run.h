/* One run: its request, its report, and what explain tells of it. See wire.h for the rules that hold for all three headers. */

/* ---- the request: header, then a body of NUL-terminated strings and file records ---- */

enum sn_request_flag {
	SN_REQUEST_BODY_FD = 1,   /* the body is in a memfd, the first descriptor after stdin, stdout, stderr */
	SN_REQUEST_WORKSPACE = 2, /* a detached mount follows (after the memfd, if there is one) */
	SN_REQUEST_COLLECT = 4,   /* send a descriptor of the workspace's root with the report */
	SN_REQUEST_CPU_GROUP = 16, /* v1: the guest enters SN_GAUGE_CPU_GROUP, so that its quota does not slow init down */
	SN_REQUEST_SAMPLE = 8,    /* no cgroup: keep memory and CPU limits by sampling */
	SN_REQUEST_CHANGES = 32,  /* the workspace that follows (bound without its submounts) is the lower layer of an overlay (changes in
	                             0/upper); the directory of changes goes up before the report. Also without a workspace, for the plan's
	                             SN_OP_CHANGES, whose changes are lost without it */
	SN_REQUEST_UPPER = 64,    /* a detached mount follows: the directory of changes instead of a tmpfs, owned by the guest. Init makes N,
	                             N/upper and N/work in it where they lack; a run leaves a mark in N/work that no second one may find */
	SN_REQUEST_EXPLAIN = 128, /* a socket to the supervisor follows: init sends the filter's listener there and keeps none */
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
	/* the body, in this order: cwd; candidates (paths tried for execve); argv; env; file records; guard records */
	uint32_t candidates, argc, envc, files;
	uint32_t guards;
	uint32_t core; /* pins the guest to this core: its number and 1; 0: not */
	uint64_t exec_device, exec_inode; /* of the first candidate, what the host resolved; both 0: not compared */
};

/* Descriptors, in this order: the channel, stdin, stdout, stderr; then what there is of: body, workspace, upper, supervisor's socket. */

struct sn_file { /* 8-byte aligned within the body, followed by the name with its NUL, then the data */
	uint64_t size; /* of data */
	uint32_t name_bytes; /* its NUL included */
	uint32_t mode;
};

enum sn_guard_flag {
	SN_GUARD_RDONLY = 1, /* cannot be written; without a flag it is bound onto itself, so that it cannot be renamed or removed */
	SN_GUARD_MASK = 2,   /* covered by /.empty/dir or /.empty/file, which the template has */
};

struct sn_guard { /* 8-byte aligned within the body, followed by the name with its NUL: relative to the workspace, no link on the way. The
                     last component may be one, and is then itself what is guarded. An outer one comes before an inner one */
	uint64_t device, inode; /* what the host saw in the workspace that it sends; both 0: not compared */
	uint32_t flags;
	uint32_t name_bytes; /* its NUL included */
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
	SN_REPORT_CHANGES = 4, /* before the last: with the directory of changes; nothing else in it counts */
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
	SN_HELD_LANDLOCK = 4194304,
	SN_HELD_CHANGES = 8388608,    /* the workspace and the plan's SN_OP_CHANGES are overlays */
	SN_HELD_GUARDS = 16777216,    /* every guard of the request is in place */
	SN_HELD_SUBREAPER = 33554432, /* no pid namespace: init is the subreaper of the tree */
	SN_HELD_EXPLAIN = 67108864,   /* the filter asks the supervisor */
	SN_HELD_PARKED = 134217728,   /* the guest was waiting before the request came */
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


/* ---- explain: refused calls, in a memfd that the host and the supervisor map ---- */

struct sn_ending { /* supervisor to init: a call that ends the tree */
	uint32_t arch;
	int32_t nr;
};

enum sn_denials_state {
	SN_DENIALS_OPEN = 1, /* the supervisor has it */
	SN_DENIALS_DONE = 2, /* nobody has the filter any more: all is there */
};

enum {
	SN_DENIAL_ENDED = 0x7fffffff, /* no errno: the call ended the tree */
};

struct sn_denial {
	uint32_t arch;
	int32_t nr;
	int32_t error; /* what the call was answered with; below 0: it was let through, and by the look of its path got -error */
	uint32_t count;
	uint64_t args[6];
	char path[SN_DENIAL_PATH];  /* the first path argument, made absolute as the guest sees it, or a socket's address; "" for none */
	char other[SN_DENIAL_PATH]; /* the second path; behind its NUL a word that is none, such as a file system's name */
};

struct sn_denials {
	uint32_t version;
	uint32_t state;
	uint32_t count;
	uint32_t lost; /* calls that found no room */
	struct sn_denial item[SN_MAX_DENIALS];
};
