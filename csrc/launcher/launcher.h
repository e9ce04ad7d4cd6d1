/* The launcher's map: one block for each file, in the order in which a run passes through them.
 *
 * One executable, six processes: the launcher (host's tree and credentials), the template (the root,
 * pivoted), a slot for each box that runs at once, init in every box, the guest's first steps, and where refused calls are explained
 * a supervisor for each run. All are single-threaded
 * copies of one another; none opens a library, reads the environment or allocates. A step
 * returns 0, or -1 with `why` filled where the call failed.
 */
#pragma once

#include "../common/sys.h"

struct guest;

struct plan { /* the host's plan as mapped, and what was opened for it */
	const struct sn_plan *head;
	const char *base;
	int fd;       /* that it was read from, -1 once that is closed */
	int idmap_fd; /* user namespace for SN_OP_IDMAP, -1 until it is needed */
	int ruleset;  /* init's, of Landlock; -1: none */
	bool building; /* the template's root: the host's tree is at /old, and flags that cannot be set before attaching are set after */
	uint32_t late; /* of the box's operations, the first that waits for the request */
};

static inline const char *plan_text(const struct plan *plan, uint32_t at)
{
	return at ? plan->base + at : NULL;
}

/* Without namespaces: rung landlock. */
static inline bool plan_bare(const struct plan *plan)
{
	return plan->head->flags & SN_PLAN_BARE;
}

static inline bool plan_warm(const struct plan *plan)
{
	return plan->head->flags & SN_PLAN_WARM;
}

static inline bool plan_as_root(const struct plan *plan)
{
	return plan->head->flags & SN_PLAN_ROOT;
}

/* failure.c: fills the record, returns -1. `error` is positive. */
int fail(struct sn_failure *why, uint32_t stage, long error, const char *item);

/* channel.c: SEQPACKET messages with descriptors */
enum { CHANNEL_MAX_FDS = 24 };
long channel_send(int fd, const void *data, size_t size, const int *fds, unsigned count);
/* What became of a request of the host's; `fd` goes along unless it is -1. */
void channel_answer(int channel, const struct sn_failure *why, int fd);
/* Bytes, 0 at the end, or -errno. What came of descriptors is in fds; the rest is closed. */
long channel_receive(int fd, void *data, size_t size, void *more, size_t more_size, int *fds, unsigned *count);

int channel_for_box(int control);
void channel_report(int channel, const struct sn_report *report, int fd);

/* main.c: the launcher's life; template.c, serve.c, slot.c, init.c: what its copies become */
int template_main(struct plan *plan, int control, int mapper);
void template_serve(struct plan *plan, int control);
/* plan.c */
int plan_read(int fd, struct plan *plan, struct sn_failure *why);
/* warm_start.c: the interpreter, in namespaces of its own; warm.c, in a clone of it: back to the interpreter's own code, from
 * where guest_go_on is called; and, when all is done, nothing is shared with init any more */
int warm_start(struct plan *plan, int control);
__attribute__((noreturn)) void warm_return(struct guest *guest);
int warm_part(struct guest *guest);
__attribute__((noreturn)) void slot_main(struct plan *plan, int control, const struct sn_control *message, const int *fds);

/* userns.c */
int userns_map(const char *process, uint32_t inside_uid, uint32_t outside_uid, uint32_t inside_gid, uint32_t outside_gid,
	       bool deny_setgroups, struct sn_failure *why);
int userns_enter_self(const struct plan *plan, struct sn_failure *why);
int userns_become_box(struct plan *plan, int mapper, struct sn_failure *why);
int userns_serve_mapper(const struct plan *plan, int mapper, long pid);
int userns_for_idmap(const struct plan *plan, struct sn_failure *why);

enum { MOUNT_ABSENT = -2 }; /* mount_clone, overlay_of_host: there is none, and it is optional */

/* mounts.c: one operation; remount.c: its flags on an old kernel; root.c: the template's root */
int mount_clone(struct plan *plan, int root, const char *path, uint32_t flags, uint64_t device, uint64_t inode,
		struct sn_failure *why);
unsigned long mount_classic_flags(uint32_t flags);
long mount_set_flags(int tree, uint32_t flags);
bool mount_is_same(int fd, uint64_t device, uint64_t inode);
long mount_source(int root, const char *path, uint64_t device, uint64_t inode);
long mount_exactly(const char *path);
long mount_move(int tree, int point);
int mount_attach(int mount, const char *target, struct sn_failure *why);
int mount_target(const char *target, bool directory, struct sn_failure *why);
int mount_like_workspace(const struct plan *plan, const char *target, uint64_t size, struct sn_failure *why);
int mount_box_op(const struct plan *plan, const struct sn_op *op, uint32_t *held, struct sn_failure *why);
int mount_resize(const struct plan *plan, uint64_t tmp_bytes, struct sn_failure *why);
int remount_tree(const char *mountinfo, const char *top, unsigned long flags, bool recursive, struct sn_failure *why);
int remount_safe(const char *path, struct sn_failure *why);
int root_build(struct plan *plan, struct sn_failure *why);

/* overlay.c: in the template, and in a box once the request is there */
int overlay_of_host(const struct plan *plan, int old, const struct sn_op *op, struct sn_failure *why);
struct request;
int overlay_box(const struct plan *plan, struct request *request, uint32_t *held, struct sn_failure *why);

/* guard.c: protected and hidden paths in a box */
int guard_op(const struct plan *plan, const struct sn_op *op, struct sn_failure *why);
int guard_workspace(const struct plan *plan, const struct request *request, uint32_t *held, struct sn_failure *why);

/* netns.c */
int netns_fresh(struct sn_failure *why);
int netns_watched(struct sn_failure *why); /* a fresh one, of which netns_unused can tell */
bool netns_unused(void);

/* cgroup.c */
struct gauges {
	int fd[SN_MAX_GAUGES]; /* by enum sn_gauge; -1: none */
};
struct usage {
	uint64_t cpu_ns, user_ns, system_ns;
};
int cgroup_enter(const struct sn_control *message, const int *fds, struct gauges *gauges, struct sn_failure *why);
void cgroup_begin(const struct gauges *gauges);
bool cgroup_has_cpu(const struct gauges *gauges);
struct usage cgroup_usage(const struct gauges *gauges);
uint64_t cgroup_memory(const struct gauges *gauges);
uint64_t cgroup_oom_kills(const struct gauges *gauges);
uint64_t cgroup_peak(const struct gauges *gauges);
uint64_t cgroup_processes(const struct gauges *gauges);
void cgroup_remove_all(const struct plan *plan);

/* tree.c: the processes of a run: a pid namespace's but for init, or (`bare`) what descends from the caller, a subreaper */
struct sampled {
	uint64_t cpu_ns, memory_bytes;
	uint32_t processes;
};
typedef void tree_visit(int proc, const char *pid, struct sampled *sum);
long tree_read(int proc, const char *pid, const char *name, char *text, size_t size);
/* Stops at a time of CLOCK_MONOTONIC, wherever it is. */
struct sampled tree_each(bool bare, tree_visit *visit, uint64_t until);
bool tree_is_empty(bool bare);
void tree_kill(bool bare);
void tree_end(void);

/* descendants.c: those of the caller, a subreaper */
struct sampled descendants_each(tree_visit *visit, uint64_t until);
void descendants_kill(void);

/* sample.c: the tree's own figures where there is no control group */
struct sampled sample_tree(bool bare, uint64_t until);
uint64_t sample_shared_once(bool bare, uint64_t until);
uint32_t sample_processes(bool bare); /* zombies count */

/* owned.c: modes and times of the guest's files, where it may not change them itself */
struct seccomp_notif;
struct owned {
	const struct plan *plan;
	int directory[2]; /* what the run brought; -1: nothing */
};
bool owned_serve(const struct owned *owned, int listener, const struct seccomp_notif *note);

/* creds.c, limits.c, seccomp.c: layers that the guest carries */
int creds_prepare(bool bare, uint32_t *held, struct sn_failure *why);
int creds_drop(uint32_t *held, struct sn_failure *why);
bool limits_core(const struct plan *plan);
int limits_apply(const struct sn_request *request, bool core_kept, uint64_t *kept, uint32_t *held, struct sn_failure *why);
/* supervisor: a socket that the listener goes to, -1: it stays in *listener. */
int seccomp_install(const struct plan *plan, int supervisor, int *listener, uint32_t *held, struct sn_failure *why);
long seccomp_read(int listener, bool supervised, const struct owned *owned, struct sn_report *report);

/* request.c: what the host asks for, unpacked in place */
enum { REQUEST_FDS = 8 };
struct request {
	struct sn_request head;
	char body[SN_INLINE_BYTES];
	const char *cwd, **candidates, **argv, **env;
	const struct sn_file *file_records;
	const struct sn_guard *guard_records;
	int channel, stdio[3];
	int body_fd, workspace, upper, supervisor;
	int changes; /* the directory of changes, once it is there */
};
/* false: the slot's socket is closed. With the channel in any case, -1 if there was none; why->stage where the request makes no sense. */
bool request_receive(int control, struct request *request, struct sn_failure *why);
void request_hide(const struct plan *plan, const struct request *request);
int request_show(const struct plan *plan, const struct request *request, struct sn_failure *why);
const char *request_guard_name(const struct sn_guard *guard);
const struct sn_guard *request_guard_after(const struct sn_guard *guard);
int request_place_files(const struct plan *plan, const struct request *request, struct sn_failure *why);

/* landlock.c: by init while the box is parked; by the guest, parked; by init where a run brings something; by the guest */
int landlock_prepare(struct plan *plan, struct sn_failure *why);
int landlock_complete(struct plan *plan, const struct request *request, struct sn_failure *why);
int landlock_own(const struct plan *plan, struct sn_failure *why);
int landlock_enter(const struct plan *plan, uint32_t *held, struct sn_failure *why);

/* guest.c: from the clone to execve, in memory and with a descriptor table shared with init. The two take turns on one word, which the
 * kernel sets to GUEST_GONE at execve or at the process's end. */
enum guest_turn { GUEST_GONE = 0, GUEST_PREPARES = 1, GUEST_PARKED = 2, GUEST_WAITS = 3, GUEST_ASKS = 4, GUEST_GOES_ON = 5 };
struct guest {
	struct plan *plan;
	const struct gauges *gauges;
	struct request *request;
	int control; /* the slot's socket */
	int pidfd;   /* of init */
	uint32_t turn;
	bool called; /* there is a request, or was one that made no sense */
	bool core_kept;
	bool went; /* it came as far as execve, or (a clone) its program */
	struct usage before; /* of the group, where that is to be taken after the run's files were placed */
	long pid;
	int listener, ruleset; /* what the one opened and the other has to know of */
	uint32_t held;
	uint64_t rlimits_kept, started_ns;
	struct sn_failure why;
};
struct parked { /* init's and the guest's: they share all their memory, or (clones of an interpreter) this */
	struct guest guest;
	struct request request;
};
int guest_park(struct guest *guest, int cgroup);
void guest_go_on(struct guest *guest);
/* Until it is the other's turn no more: what that left in guest->turn. */
uint32_t guest_await(struct guest *guest, uint32_t turn);
void guest_give_turn(struct guest *guest, uint32_t from, uint32_t to);

/* init.c, watch.c */
enum { INIT_UNUSED = 2 }; /* init's exit status when the slot's socket was closed before anybody wanted the box */
__attribute__((noreturn)) void init_main(struct plan *plan, const struct gauges *gauges, int control, uint32_t held);
struct watch {
	bool bare;
	struct owned owned;
	const struct sn_request *request;
	const struct gauges *gauges;
	int channel, signals, listener;
	bool supervised; /* listener is the socket to the supervisor, which has the filter's */
	long main_pid;
	uint64_t started_ns, own_cpu_ns, oom_before;
	struct usage before;
	struct sn_report *report;
};
uint64_t clock_ns(int clock);
/* Watches the run to its end and ends the tree. false: the host is gone. */
bool watch_run(struct watch *watch);

/* supervise.c: the supervisor of one run's refused calls; bpf.c, shapes.c, arguments.c, foresee.c: what it knows of a call */
struct sock_filter;
struct seccomp_data;
int supervise_start(const struct plan *plan, int socket, int memory, struct sn_failure *why);
uint32_t bpf_answer(const struct sock_filter *program, uint32_t count, const struct seccomp_data *call, uint32_t *read);

enum { PATH_MOST = 4096, PATH_ROOM = 2 * PATH_MOST };
enum need { /* of a path, for the call to work */
	NEED_NOTHING,
	NEED_SEEN,    /* it exists */
	NEED_NAME,    /* as NEED_SEEN, but a link itself */
	NEED_FLAGS,   /* as the argument behind it says: open(2)'s flags */
	NEED_MODE,    /* as the argument behind it says: access(2)'s mode */
	NEED_NEW,     /* its directory can be written */
	NEED_GONE,    /* it exists, and its directory can be written */
	NEED_PLACED,  /* its directory can be written, whether it exists or not */
	NEED_MADE,    /* creat(2) */
	NEED_WRITTEN,
	NEED_OWNED,   /* it is not on a read-only mount */
	NEED_RUN,
	NEED_SOCKET,
};
enum { AS_IT_IS = -2 };
struct path_place {
	int8_t text, at; /* arguments; -1: none, and for `at` the current directory; AS_IT_IS: it need not be a path */
	uint8_t need;    /* enum need */
};
struct shape {
	int32_t nr;
	struct path_place path[2];
	int8_t word;  /* an argument: a text that is no path; -1: none */
	uint8_t keys; /* bits: the arguments that say what is asked */
	bool address; /* path[0].text is a socket's address */
};
const struct shape *shape_of(int nr);
long peek(int pid, uint64_t from, void *into, size_t size);
void peek_text(int pid, uint64_t from, char *into, size_t size);
void process_path(int pid, const char *what, long number, char *into, size_t size);
void read_arguments(int pid, const struct seccomp_data *call, const struct shape *shape, char paths[2][PATH_ROOM], char *word,
		    size_t word_size);
enum { NOT_FORESEEN = 1 };
long foresee(int root, char *path, enum need need, uint64_t next);

/* probe.c */
void probe_all(struct plan *plan, struct sn_probes *out);
