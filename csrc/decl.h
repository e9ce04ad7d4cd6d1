/* The boundary between Python and C: read by the compiler (after those in common) and by cffi's cdef.
 *
 * Everything here runs in the host process, on the calling thread, with the GIL released; nothing
 * allocates from the heap but captures, which are anonymous mappings that the box owns. A function returns 0 or a
 * count, or -errno; `why` (never NULL) then says where and on what.
 */

struct sn_process { /* a process of ours that is not the host's child to wait for */
	int32_t pid;
	int32_t pidfd;
	int32_t control; /* SOCK_SEQPACKET to it; -1 when closed */
	int32_t reserved;
};

/* Starts the launcher through a short-lived middle process: the host neither forks nor gets SIGCHLD. */
int sn_launcher_start(const char *path, struct sn_process *launcher, struct sn_failure *why);

/* Sends the plan; waits for the template. *template_control is a socket to it. */
int sn_launcher_plan(struct sn_process *launcher, int plan_fd, int32_t *template_control, int timeout_ms, struct sn_failure *why);

/* SN_PLAN_PROBE: sends the plan, reads the records. */
int sn_launcher_probe(struct sn_process *launcher, int plan_fd, struct sn_probes *out, int timeout_ms, struct sn_failure *why);

/* A detached mount of a host directory, from the launcher: its descriptor, or -errno. Serialise calls. */
int sn_launcher_bind(struct sn_process *launcher, const char *path, uint32_t flags, uint64_t device, uint64_t inode,
		     int timeout_ms, struct sn_failure *why);

/* A supervisor for one run with explain: its pidfd, or -errno. `socket` is its end of a pair whose other goes to init, `denials` a memfd
 * of a struct sn_denials; both are kept by the caller. Serialise calls. */
int sn_launcher_explain(struct sn_process *launcher, int socket, int denials, int timeout_ms, struct sn_failure *why);

/* A slot: gauges[i] says what fds[i] is. It ends by itself after idle_seconds without a request (0: never). The caller keeps and closes its own fds. Serialise calls. */
int sn_slot_open(struct sn_process *template, const uint32_t *gauges, const int32_t *fds, uint32_t count, uint32_t idle_seconds, uint32_t hold_us,
		 struct sn_process *slot, int timeout_ms, struct sn_failure *why);

/* For whoever waits for an answer, and for the process, the conversation is over. The socket stays open: nobody may close it meanwhile. */
void sn_process_hang_up(struct sn_process *process);

enum sn_kill { /* when a process that is closed gets SIGKILL */
	SN_KILL_LATE = 0,  /* when it has not ended in time */
	SN_KILL_FIRST = 1,
	SN_KILL_NEVER = 2, /* it ends others, which would be rid of it */
};

/* Closes the channel and waits until the process is gone: 0, or -ETIMEDOUT, and it lives. Reaps it where the host is its parent. Harmless
 * when already closed. */
int sn_process_close(struct sn_process *process, int timeout_ms, enum sn_kill kill);

/* ---- one box ---- */

enum sn_stream_flag {
	SN_STREAM_OPEN = 1,  /* the pipe has not reached its end */
	SN_STREAM_FLOW = 2,  /* somebody reads: at the bound wait for the reader rather than throw away */
};

struct sn_stream {
	int32_t fd;
	uint32_t flags;
	uint8_t *data;    /* mapping of `bound` bytes (rounded up to pages), made at the first byte */
	uint64_t bound;
	uint64_t start;   /* bytes at the front that a reader has taken */
	uint64_t end;     /* bytes stored; data[start..end) is there to take */
	uint64_t total;   /* bytes that the guest wrote, kept or not */
};

enum sn_box_state {
	SN_BOX_NEW = 0,
	SN_BOX_RUNNING = 1,
	SN_BOX_DONE = 2, /* report holds the end; the streams are drained */
};

enum sn_box_flag {
	SN_BOX_MERGE = 1,           /* stderr into stdout's pipe */
	SN_BOX_KILL_ON_OVERFLOW = 2,
	SN_BOX_STDIN_PIPE = 4,      /* the caller writes: sn_box_write, sn_box_close_stdin */
};

struct sn_box {
	uint32_t state;
	uint32_t flags;
	int32_t epoll;
	int32_t channel;
	int32_t pidfd;        /* init's, -1 until STARTED */
	int32_t stdin_fd;     /* the write end, -1 when closed */
	int32_t stdin_source; /* relayed to stdin_fd, -1: none; the caller's own, never closed here */
	int32_t workspace_fd; /* SN_REQUEST_COLLECT: the workspace's root, -1: none; the caller takes it (sets -1) or close does */
	int32_t changes_fd;   /* SN_REQUEST_CHANGES: the directory of changes, as workspace_fd */
	int32_t handed_in;    /* ends of pipes that the guest itself gets as 0 and as 1 (nothing is relayed or captured then), -1: none; */
	int32_t handed_out;   /* the box's own, as workspace_fd */
	int32_t reserved;
	const uint8_t *stdin_data; /* the caller keeps it alive */
	uint64_t stdin_size, stdin_done;
	uint64_t started_ns;  /* CLOCK_MONOTONIC */
	uint64_t deadline_ns; /* CLOCK_MONOTONIC: init's deadline and the grace; then SIGKILL */
	uint64_t relay_at, relay_end; /* of the relay buffer, below */
	uint8_t *relay;
	uint32_t ending;      /* enum sn_request_verb that was sent, 0: none */
	uint32_t kill;        /* why SIGKILL was sent, or waits for init's pidfd; 0: neither */
	struct sn_stream out, err;
	struct sn_report report;
};

/* Sets everything to closed. */
void sn_box_init(struct sn_box *box);

struct sn_given { /* descriptors that go with a request, kept by the caller; -1: none */
	int32_t workspace; /* a detached mount */
	int32_t upper;     /* a detached mount */
	int32_t explain;   /* a socket to a supervisor */
	int32_t reserved;
};

/* Starts a run in the slot: makes channel, pipes and epoll, and sends the request (header, and the body inline or in
 * a memfd). box->flags, stdin_data/stdin_size, stdin_source or handed_in, handed_out, out.bound and err.bound are set by the caller before.
 * The request's flags for what is given are set here. grace_ms is added to the request's wall time. Does not wait. On failure all is closed. */
int sn_box_start(struct sn_box *box, struct sn_process *slot, struct sn_request *request, const uint8_t *body,
		 const struct sn_given *given, int grace_ms, struct sn_failure *why);

/* Serves everything that is ready, then waits at most timeout_ms (-1: for ever, 0: not at all) for more: 1 when the box is done, 0 when the time is
 * over, a stream grew or ended (only with SN_STREAM_FLOW) or stdin has room again after a short sn_box_write; -EINTR on a signal, or
 * -errno. On a box that is done: fetches what still waits in a pipe for a reader (SN_STREAM_OPEN). Who watches `epoll` in an event
 * loop calls this when it is readable, after taking from a stream that was full, and at deadline_ns. */
int sn_box_wait(struct sn_box *box, int timeout_ms, struct sn_failure *why);

/* Asks init to end the tree; a second call uses SIGKILL. From any thread, also while another is in sn_box_wait. */
int sn_box_end(struct sn_box *box, uint32_t verb);

/* Writes to stdin without blocking: bytes taken, 0 when the pipe is full, -EPIPE when the guest has closed it. */
int64_t sn_box_write(struct sn_box *box, const uint8_t *data, uint64_t size);
void sn_box_close_stdin(struct sn_box *box);

/* Takes at most `size` bytes from the front of a stream: bytes, 0 when there are none now. */
int64_t sn_stream_take(struct sn_stream *stream, uint8_t *into, uint64_t size);

/* Kills what still runs, closes and unmaps everything. Harmless when repeated. */
void sn_box_close(struct sn_box *box);

/* In a forked child of the host: closes descriptors only, sends and kills nothing. */
void sn_box_abandon(struct sn_box *box);

/* ---- many boxes, one thread ---- */

/* `epoll` is the caller's, empty at first; `place` is the box's index in the array that sn_batch_wait is given. */
int sn_batch_add(int epoll, struct sn_box *box, uint32_t place);
int sn_batch_remove(int epoll, struct sn_box *box);
/* sn_batch_wait returns when this descriptor is readable, too. */
int sn_batch_wake_by(int epoll, int fd);

/* Serves all of them as sn_box_wait does, until some are over, it is woken, or the time is: how many are, their places in `done` (room for all), 0
 * for none, or -errno (-EINTR on a signal). `boxes` has NULL where there is none. */
int sn_batch_wait(int epoll, struct sn_box *const *boxes, uint32_t count, uint32_t *done, int timeout_ms);

/* ---- system calls of this build ---- */

struct sn_syscall {
	const char *name;
	int32_t number;
};

/* Tables end with a NULL name. `other` is the foreign architecture's (i386 on x86_64), empty elsewhere. */
const struct sn_syscall *sn_syscalls(void);
const struct sn_syscall *sn_syscalls_other(void);
uint32_t sn_audit_arch(void);
uint32_t sn_audit_arch_other(void);
