/* A slot: the process that stamps out boxes, one at a time, in its own control group. It makes a new network namespace where
 * the last box left a trace in the old one, clones the next init, and waits for its end. Init and the guest-to-be are made before
 * anybody asks for them: they do what does not depend on the request, and the latter waits on the slot's own socket for that.
 *
 * Ends when the host closes that socket.
 */

#include "launcher.h"

#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>

enum { INIT_STACK_BYTES = 131072, HOLD_STEPS = 64 };

/* With a pidfd of ourselves. */
static void answer(int control, struct sn_failure *why)
{
	owned_fd self = (int)sys(NR_pidfd_open, sys(SYS_getpid), 0);
	if (self < 0 && !why->stage)
		fail(why, SN_STAGE_CLONE, self, "pidfd of a slot");
	channel_answer(control, why, self);
}

/* For a box that could not be made: waits for whoever wants it. false: the host has closed the slot. */
static bool refuse(int control, const struct sn_failure *why)
{
	struct sn_report report = {.version = SN_WIRE_VERSION, .kind = SN_REPORT_FAILED, .failure = *why};
	owned_fd channel = channel_for_box(control);
	if (channel < 0)
		return false;
	channel_report(channel, &report, -1);
	return true;
}

struct start { /* of an init in the slot's own memory */
	struct plan *plan;
	const struct gauges *gauges;
	int control;
	uint32_t held;
};

static __attribute__((noreturn)) void start_init(void *argument)
{
	const struct start *start = argument;
	init_main(start->plan, start->gauges, start->control, start->held);
}

/* Its pid. Where guests are clones of an interpreter only they get a copy of its memory, which is what such a run costs most time for: init
 * runs in the slot's, on a stack that is new for each, since what is left there every later guest would have too. */
static long clone_in_place(uint64_t namespaces, struct start *start)
{
	static char *stack;
	static uint32_t gone;
	long result;
	if (stack) {
		sys(SYS_madvise, stack, INIT_STACK_BYTES, MADV_DONTNEED);
	} else {
		result = sys(SYS_mmap, NULL, INIT_STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (result < 0 && result > -4096)
			return result;
		stack = (char *)result;
	}
	return sys_clone_call(namespaces | CLONE_VM, SIGCHLD, -1, stack, INIT_STACK_BYTES, &gone, start_init, start);
}

static long clone_init(struct plan *plan, int control, const struct gauges *gauges, uint32_t held)
{
	static struct start start;
	uint64_t namespaces = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS;
	start = (struct start){plan, gauges, control, held};
	if (plan_warm(plan))
		return clone_in_place(namespaces, &start);
	long pid = sys_clone(plan_bare(plan) ? 0 : namespaces, NULL, SIGCHLD, -1);
	if (pid == 0)
		init_main(plan, gauges, control, held);
	return pid;
}

/* Where there is a stock of boxes the next runs have theirs, and to make another now would take the processor from them. A request that
 * comes all the same, since the stock was too small for the time, makes the time shorter. */
static void others_first(int control, uint32_t most_us)
{
	static uint32_t hold_us = UINT32_MAX;
	hold_us = hold_us < most_us ? hold_us : most_us;
	struct pollfd asked = {.fd = control, .events = POLLIN};
	struct timespec hold = {.tv_sec = hold_us / 1000000, .tv_nsec = hold_us % 1000000 * 1000L};
	if (!most_us)
		return;
	if (sys(SYS_ppoll, &asked, 1, &hold, NULL, 0) != 0)
		hold_us /= 2;
	else
		hold_us += most_us / HOLD_STEPS;
}

/* One box, from its init's clone to its end. false: the slot is to end, since its socket is closed, or since init was killed: the host
 * finds the slot gone then, and takes another. Where no pid namespace ends whom such an init left, the slot does. */
static bool stamp(struct plan *plan, int control, const struct gauges *gauges, uint32_t held)
{
	struct sn_failure why = {0};
	int status = 0;
	long pid = clone_init(plan, control, gauges, held);
	if (pid < 0) {
		fail(&why, SN_STAGE_CLONE, pid, "init in new namespaces");
		return refuse(control, &why);
	}
	sys(SYS_wait4, pid, &status, __WALL, NULL);
	if (plan_bare(plan))
		tree_end();
	return WIFEXITED(status) && WEXITSTATUS(status) != INIT_UNUSED;
}

void slot_main(struct plan *plan, int control, const struct sn_control *message, const int *fds)
{
	struct gauges gauges;
	struct sn_failure why = {0};
	bool bare = plan_bare(plan);
	bool warm = plan_warm(plan); /* without a capability: its inits make their own */
	uint32_t held = bare || warm ? 0 : SN_HELD_NET;
	signal(SIGCHLD, SIG_DFL);
	uint64_t child = UINT64_C(1) << (SIGCHLD - 1);
	sys(SYS_rt_sigprocmask, SIG_BLOCK, &child, NULL, sizeof child);
	sys(SYS_prctl, PR_SET_CHILD_SUBREAPER, bare);
	int failed = cgroup_enter(message, fds, &gauges, &why) || (!bare && !warm && netns_watched(&why));
	struct timeval idle = {.tv_sec = message->flags};
	setsockopt(control, SOL_SOCKET, SO_RCVTIMEO, &idle, sizeof idle);
	answer(control, &why);
	if (failed)
		sys(SYS_exit_group, 1);
	while (why.stage ? refuse(control, &why) : stamp(plan, control, &gauges, held)) {
		others_first(control, message->hold_us);
		if (bare || warm)
			continue;
		if (!why.stage && netns_unused()) {
			held = SN_HELD_NET | SN_HELD_NET_UNUSED;
			continue;
		}
		held = SN_HELD_NET;
		why = (struct sn_failure){0};
		netns_watched(&why);
	}
	sys(SYS_exit_group, 0);
	__builtin_unreachable();
}
