/* From the clone to execve. Init keeps the guest-to-be parked: it has given up what it can without knowing the request, and waits for that
 * on the slot's socket, so that a run only has to wake one process. It shares init's memory and descriptor table until execve, so:
 * raw system calls only, no allocation, no lock, nothing of init's is changed but *guest and its request. What takes privileges (mounts)
 * it asks init for.
 *
 * The order matters: the cgroup namespace while there are capabilities; the filter once nothing privileged is left to do; the descriptors
 * after the filter, because its listener arrives in the table that init shares. Where refused calls are explained, the filter
 * needs the supervisor that comes with the request.
 */

#include "launcher.h"

#include <linux/futex.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

enum { STACK_BYTES = 65536, LOOK_NS = 100000000 };

static int session(struct guest *guest)
{
	long result = sys(SYS_setsid);
	if (result < 0)
		return fail(&guest->why, SN_STAGE_SESSION, result, "setsid");
	guest->held |= SN_HELD_SESSION;
	return 0;
}

static int working_directory(struct guest *guest)
{
	long result = sys(SYS_chdir, guest->request->cwd);
	return result < 0 ? fail(&guest->why, SN_STAGE_CWD, result, guest->request->cwd) : 0;
}

/* A CPU quota on v1 is a group of the guest's own: with init in it, 64 spinning threads would keep init from seeing the deadline. The
 * move waits 5 to 12 ms for the kernel, in the runs that ask for a quota only. */
static int cpu_group(struct guest *guest)
{
	bool asked = guest->request->head.flags & SN_REQUEST_CPU_GROUP;
	long wrote = asked ? sys(SYS_write, guest->gauges->fd[SN_GAUGE_CPU_GROUP], "0", 1) : 0;
	return wrote < 0 ? fail(&guest->why, SN_STAGE_CGROUP, wrote, "cpu group") : 0;
}

static int cgroup_namespace(struct guest *guest)
{
	if (plan_bare(guest->plan))
		return 0;
	long result = sys(SYS_unshare, CLONE_NEWCGROUP);
	if (result < 0)
		return fail(&guest->why, SN_STAGE_CGROUP, result, "cgroup namespace");
	guest->held |= SN_HELD_CGROUP_NS;
	return 0;
}

/* Container engines refuse unshare altogether to who has no capabilities; then close_range, with nothing to close, does the same. */
static long own_table(void)
{
	enum { BEYOND_ALL = 0x40000000, UNSHARE = 2 };
	long result = sys(SYS_unshare, CLONE_FILES);
	return is_absent(result) ? sys(NR_close_range, BEYOND_ALL, ~0U, UNSHARE) : result;
}

/* A table of its own with 0, 1 and 2. What else is open is close-on-exec: close_range only makes sure. */
static int descriptors(struct guest *guest)
{
	long result = own_table();
	for (int i = 0; i < 3 && result >= 0; i++)
		result = sys(SYS_dup3, guest->request->stdio[i], i, 0);
	if (result < 0)
		return fail(&guest->why, SN_STAGE_STDIO, result, "0, 1, 2");
	result = sys(NR_close_range, 3, ~0U, 0);
	if (result < 0 && !is_absent(result))
		return fail(&guest->why, SN_STAGE_STDIO, result, "close_range");
	guest->held |= SN_HELD_FDS;
	return 0;
}

static int pin(struct guest *guest)
{
	enum { CORES = 8192, BITS = 8 * sizeof(long) };
	unsigned long mask[CORES / BITS] = {0};
	uint32_t core = guest->request->head.core;
	if (!core)
		return 0;
	if (core <= CORES)
		mask[(core - 1) / BITS] = 1UL << (core - 1) % BITS;
	long result = sys(SYS_sched_setaffinity, 0, sizeof mask, mask);
	return result < 0 ? fail(&guest->why, SN_STAGE_SESSION, result, "pinned core") : 0;
}

static int signals(struct guest *guest)
{
	uint64_t none = 0;
	long result = sys(SYS_rt_sigprocmask, SIG_SETMASK, &none, NULL, sizeof none);
	return result < 0 ? fail(&guest->why, SN_STAGE_SESSION, result, "signal mask") : 0;
}

/* The program is what the host looked at. */
static int same_program(struct guest *guest)
{
	const struct sn_request *head = &guest->request->head;
	const char *path = guest->request->candidates[0];
	struct stat found;
	if (!head->exec_device && !head->exec_inode)
		return 0;
	owned_fd fd = (int)sys(SYS_openat, AT_FDCWD, path, O_PATH | O_CLOEXEC);
	if (fd < 0)
		return fail(&guest->why, SN_STAGE_EXEC, fd, path);
	if (fstat(fd, &found) || found.st_dev != head->exec_device || found.st_ino != head->exec_inode)
		return fail(&guest->why, SN_STAGE_EXEC, ESTALE, path);
	return 0;
}

/* As execvp: the first candidate that can be executed; a permission refused is remembered over one that is missing. */
static int execute(struct guest *guest)
{
	const struct request *request = guest->request;
	long worst = -ENOENT;
	const char *which = request->candidates[0];
	for (const char **path = request->candidates; *path; path++) {
		long result = sys(SYS_execve, *path, request->argv, request->env);
		if (result != -ENOENT && result != -ENOTDIR) {
			worst = result;
			which = *path;
			if (result != -EACCES)
				break;
		}
	}
	return fail(&guest->why, SN_STAGE_EXEC, worst, which);
}

static int install_filter(struct guest *guest, bool parked)
{
	if (parked == !!guest->plan->head->explain_count)
		return 0;
	int supervisor = parked ? -1 : guest->request->supervisor;
	return seccomp_install(guest->plan, supervisor, &guest->listener, &guest->held, &guest->why);
}

/* Of a child that is not reaped yet. */
static bool has_ended(long pid)
{
	siginfo_t info = {0};
	return pid > 0 && !sys(SYS_waitid, P_PID, pid, &info, WEXITED | WNOHANG | WNOWAIT, NULL) && info.si_pid == pid;
}

/* Where memory is not shared the kernel tells nobody of the other's end: init looks now and then. */
uint32_t guest_await(struct guest *guest, uint32_t turn)
{
	uint32_t now;
	struct timespec pause = {.tv_nsec = LOOK_NS};
	bool warm = plan_warm(guest->plan);
	while ((now = __atomic_load_n(&guest->turn, __ATOMIC_ACQUIRE)) == turn) {
		long result = sys(SYS_futex, &guest->turn, FUTEX_WAIT, turn, warm ? &pause : NULL);
		if (result == -ETIMEDOUT && has_ended(guest->pid))
			return GUEST_GONE;
	}
	return now;
}

void guest_give_turn(struct guest *guest, uint32_t from, uint32_t to)
{
	/* Not over what the kernel wrote when the other ended. */
	if (__atomic_compare_exchange_n(&guest->turn, &from, to, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
		sys(SYS_futex, &guest->turn, FUTEX_WAKE, 1);
}

static int prepare(struct guest *guest)
{
	return session(guest) || cgroup_namespace(guest) || creds_drop(&guest->held, &guest->why) ||
			       landlock_own(guest->plan, &guest->why) || install_filter(guest, true) ? -1 : 0;
}

/* The box is ours now: the host gets a pidfd of init, and what holds so far. */
static void say_started(const struct guest *guest)
{
	struct sn_report started = {.version = SN_WIRE_VERSION, .kind = SN_REPORT_STARTED, .held = guest->held};
	channel_report(guest->request->channel, &started, guest->pidfd);
}

/* What the run brings that is not parked with the box. */
static int fill(struct guest *guest)
{
	const struct sn_request *head = &guest->request->head;
	const struct plan *plan = guest->plan;
	if (head->tmp_bytes != plan->head->tmp_bytes || guest->request->workspace >= 0 || head->guards || plan->head->changes_at ||
	    head->flags & SN_REQUEST_CHANGES) {
		guest_give_turn(guest, GUEST_WAITS, GUEST_ASKS);
		guest_await(guest, GUEST_ASKS);
		guest->plan->ruleset = guest->ruleset; /* the plan may be each's own */
		return guest->why.stage ? -1 : 0;
	}
	return request_place_files(plan, guest->request, &guest->why);
}

/* From here on the program is what runs. Whoever is killed before that did not run it. */
static int leave(struct guest *guest)
{
	guest->went = true;
	return plan_warm(guest->plan) ? warm_part(guest) : execute(guest);
}

static int go(struct guest *guest)
{
	bool warm = plan_warm(guest->plan);
	cgroup_begin(guest->gauges);
	if (guest->request->head.files && cgroup_has_cpu(guest->gauges)) /* placing them is not the guest's work */
		guest->before = cgroup_usage(guest->gauges);
	guest->started_ns = clock_ns(CLOCK_MONOTONIC);
	return working_directory(guest) || (!warm && same_program(guest)) || cpu_group(guest) ||
			       landlock_enter(guest->plan, &guest->held, &guest->why) || install_filter(guest, false) ||
			       descriptors(guest) ||
			       limits_apply(&guest->request->head, guest->core_kept, &guest->rlimits_kept, &guest->held, &guest->why) ||
			       pin(guest) || signals(guest) || leave(guest)
		       ? -1
		       : 0;
}

/* Nobody has asked yet: the figure that tells how well boxes are kept ready. */
static bool is_early(const struct guest *guest)
{
	struct pollfd socket = {.fd = guest->control, .events = POLLIN};
	struct timespec none = {0};
	return sys(SYS_ppoll, &socket, 1, &none, NULL, 8) == 0;
}

/* Returns in a clone of an interpreter alone, and there only when all is done. */
void guest_go_on(struct guest *guest)
{
	guest_give_turn(guest, GUEST_PREPARES, GUEST_PARKED);
	guest_await(guest, GUEST_PARKED);
	guest->held |= is_early(guest) ? SN_HELD_PARKED : 0;
	guest->called = request_receive(guest->control, guest->request, &guest->why);
	if (guest->called && !guest->why.stage) {
		say_started(guest);
		if (!fill(guest) && !go(guest))
			return;
	}
	sys(SYS_exit_group, 127);
}

static __attribute__((noreturn)) void guest_main(void *argument)
{
	struct guest *guest = argument;
	if (!prepare(guest)) {
		if (plan_warm(guest->plan))
			warm_return(guest);
		guest_go_on(guest);
	}
	sys(SYS_exit_group, 127);
	__builtin_unreachable();
}

int guest_park(struct guest *guest, int cgroup)
{
	static _Alignas(16) char stack[STACK_BYTES];
	guest->turn = GUEST_PREPARES;
	if (plan_warm(guest->plan)) {
		long pid = sys_clone(CLONE_FILES, NULL, SIGCHLD, cgroup);
		if (pid == 0)
			guest_main(guest);
		guest->pid = pid; /* the guest shares it, and must not write it */
	} else {
		guest->pid = sys_clone_call(CLONE_VM | CLONE_FILES, SIGCHLD, cgroup, stack, sizeof stack, &guest->turn, guest_main, guest);
	}
	if (guest->pid < 0)
		return cgroup >= 0 ? fail(&guest->why, SN_STAGE_CGROUP, guest->pid, "clone3 into the control group")
				   : fail(&guest->why, SN_STAGE_CLONE, guest->pid, "guest");
	return 0;
}
