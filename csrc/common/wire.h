/* What travels between the host, the launcher and init: fixed-width structs, version first, size asserted. Here is what all
 * share: failures, control messages, probes; plan.h has the plan, run.h one run's request and report.
 *
 * Read by the compiler (launcher and extension) and by cffi's cdef, so: no include, no macro with
 * arguments, no bit-field. Python fills a plan and a request, C obeys them: a number that is not here is not decided
 * in C. Numbers are never reused.
 *
 *   host --START{plan}--> launcher          once for each plan; the launcher forks the template from it
 *   host --SLOT{gauges}--> template         the template forks a slot; the slot answers READY or FAILURE
 *   host --struct sn_request--> guest       on the slot's socket, to whom init keeps parked, with the channel and the guest's
 *                                           descriptors; STARTED{init's pidfd} goes up the channel
 *   init --struct sn_report--> host         up the channel, once
 *   host --BIND{path}--> launcher           a detached mount of a host directory comes back
 *   host --EXPLAIN{socket, memfd}--> launcher   a supervisor for one run's refused calls is forked; its pidfd comes back
 */

enum {
	SN_WIRE_VERSION = 1,
	SN_ITEM_BYTES = 128,    /* of the name in a failure record, its NUL included */
	SN_INLINE_BYTES = 65536, /* a longer request body travels in a memfd */
	SN_MAX_RLIMITS = 16,
	SN_MAX_GAUGES = 16,
	SN_MAX_DENIALS = 256,
	SN_DENIAL_PATH = 256,
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
	SN_STAGE_LANDLOCK = 25,  /* item is the path of the rule, or the call */
	SN_STAGE_OVERLAY = 26,   /* item is where it is mounted */
	SN_STAGE_GUARD = 27,     /* item is the protected path */
	SN_STAGE_WARM = 29,      /* the interpreter that is cloned; item is what it said */
	SN_STAGE_EXPLAIN = 28,   /* the supervisor of refused calls */
};

struct sn_failure {
	uint32_t stage;
	int32_t error; /* errno */
	char item[SN_ITEM_BYTES];
};

/* ---- control messages (SOCK_SEQPACKET; descriptors by SCM_RIGHTS) ---- */

enum sn_verb {
	SN_START = 1, /* fds: plan memfd, template control socket */
	SN_SLOT = 2,  /* fds: slot control socket, then one for each gauge */
	/* 3 was BOX: the channel alone */
	SN_BIND = 4,  /* path; answered with a detached mount */
	SN_EXPLAIN = 5, /* fds: socket to init, memfd of a struct sn_denials; answered with the supervisor's pidfd */
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
	uint32_t flags;    /* SN_BIND: enum sn_op_flag; SN_SLOT: seconds without a request after which it ends, 0: never */
	uint32_t gauges;   /* SN_SLOT: how many */
	uint32_t gauge[SN_MAX_GAUGES];
	uint32_t hold_us;  /* SN_SLOT: how long it may leave the processor to boxes of others before it makes its next one */
	uint32_t reserved;
	uint64_t device, inode; /* SN_BIND: what the host validated */
	char path[4096];        /* SN_BIND */
};

struct sn_answer { /* to SN_START (ready), SN_SLOT (ready) and SN_BIND (fd: the mount) */
	uint32_t version;
	int32_t pid; /* of the process that answers, as the launcher's pid namespace counts */
	struct sn_failure failure; /* stage SN_STAGE_NONE: it worked */
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
	SN_PROBE_OVERLAY = 16,    /* a read-only overlay of a directory of the host, as a template makes it */
	SN_PROBE_CHANGES = 17,    /* an overlay with its changes on a tmpfs, as a box makes it, that can replace a directory */
	SN_PROBE_NPROC = 18,      /* RLIMIT_NPROC counts in each user namespace by itself, not all that its user has */
	SN_PROBE_COUNT = 19,
};

struct sn_probes {
	uint32_t version;
	int32_t error[SN_PROBE_COUNT]; /* 0 works, else errno; SN_PROBE_LANDLOCK: -ABI */
};
