/* The launcher's map: one block for each file, in the order in which a run passes through them.
 *
 * One executable, five processes: the launcher (host's tree and credentials), the template (the root,
 * pivoted), a slot for each box that runs at once, init in every box, and the guest's first steps. All are single-threaded
 * copies of one another; none opens a library, reads the environment or allocates. A step
 * returns 0, or -1 with `why` filled where the call failed.
 */
#pragma once

#include "../common/sys.h"

struct plan { /* the host's plan as mapped, and what was opened for it */
	const struct sn_plan *head;
	const char *base;
	int idmap_fd; /* user namespace for SN_OP_IDMAP, -1 until it is needed */
	bool building; /* the template's root: the host's tree is at /old, and flags that cannot be set before attaching are set after */
};

static inline const char *plan_text(const struct plan *plan, uint32_t at)
{
	return at ? plan->base + at : NULL;
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

/* main.c: the launcher's life; template.c, slot.c, init.c: what its copies become */
int template_main(struct plan *plan, int control, int mapper);
__attribute__((noreturn)) void slot_main(struct plan *plan, int control, const struct sn_control *message, const int *fds);

/* userns.c */
int userns_map(const char *process, uint32_t inside_uid, uint32_t outside_uid, uint32_t inside_gid, uint32_t outside_gid,
	       bool deny_setgroups, struct sn_failure *why);
int userns_enter_self(const struct plan *plan, struct sn_failure *why);
int userns_become_box(struct plan *plan, int mapper, struct sn_failure *why);
int userns_serve_mapper(const struct plan *plan, int mapper, long pid);
int userns_for_idmap(const struct plan *plan, struct sn_failure *why);

enum { MOUNT_ABSENT = -2 }; /* mount_clone: there is none, and it is optional */

/* mounts.c: one operation; remount.c: its flags on an old kernel; root.c: the template's root */
int mount_clone(struct plan *plan, int root, const char *path, uint32_t flags, uint64_t device, uint64_t inode,
		struct sn_failure *why);
unsigned long mount_classic_flags(uint32_t flags);
int mount_attach(int mount, const char *target, struct sn_failure *why);
int mount_box_op(const struct plan *plan, const struct sn_op *op, uint32_t *held, struct sn_failure *why);
int mount_resize(const struct plan *plan, uint64_t tmp_bytes, struct sn_failure *why);
int remount_tree(const char *mountinfo, const char *top, unsigned long flags, bool recursive, struct sn_failure *why);
int remount_safe(const char *path, struct sn_failure *why);
int root_build(struct plan *plan, struct sn_failure *why);

/* netns.c */
int netns_fresh(uint64_t *print, struct sn_failure *why);
bool netns_unused(uint64_t print);

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

/* sample.c: the tree's own figures where there is no control group */
struct sampled {
	uint64_t cpu_ns, memory_bytes;
	uint32_t processes;
};
struct sampled sample_tree(void);
uint64_t sample_shared_once(void);
uint32_t sample_processes(void); /* but for init; zombies count */

/* creds.c, limits.c, seccomp.c: layers that the guest carries */
int creds_prepare(uint32_t *held, struct sn_failure *why);
int creds_drop(uint32_t *held, struct sn_failure *why);
int limits_apply(const struct sn_request *request, bool late, uint64_t *kept, uint32_t *held, struct sn_failure *why);
int seccomp_install(const struct plan *plan, int *listener, uint32_t *held, struct sn_failure *why);
long seccomp_read(int listener, struct sn_report *report);

/* request.c: what the host asks for, unpacked in place */
enum { REQUEST_FDS = 7 };
struct request {
	struct sn_request head;
	char body[SN_INLINE_BYTES];
	const char *cwd, **candidates, **argv, **env;
	const struct sn_file *file_records;
	const struct sn_guard *guard_records;
	int stdio[3];
	int body_fd, workspace, upper, supervisor;
};
int request_receive(int channel, struct request *request, struct sn_failure *why);
int request_place_files(const struct plan *plan, const struct request *request, struct sn_failure *why);

/* guest.c: from the clone to execve, in memory shared with init */
struct guest {
	const struct plan *plan;
	const struct request *request;
	long pid;
	int cpu_group; /* cgroup.procs that the guest writes itself to, -1: none */
	int listener;
	uint32_t held;
	uint64_t rlimits_kept;
	struct sn_failure why;
};
int guest_start(struct guest *guest, int cgroup);

/* init.c, watch.c */
enum { INIT_UNUSED = 2 }; /* init's exit status when the slot's socket was closed before anybody wanted the box */
__attribute__((noreturn)) void init_main(struct plan *plan, const struct gauges *gauges, int control, uint32_t held);
struct watch {
	const struct sn_request *request;
	const struct gauges *gauges;
	int channel, signals, listener;
	long main_pid;
	uint64_t started_ns, own_cpu_ns, oom_before;
	struct usage before;
	struct sn_report *report;
};
uint64_t clock_ns(int clock);
/* Watches the run to its end and ends the tree. false: the host is gone. */
bool watch_run(struct watch *watch);

/* probe.c */
void probe_all(struct plan *plan, struct sn_probes *out);
