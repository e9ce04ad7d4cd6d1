/* A slot: the process that stamps out boxes, one at a time, in its own control group. It keeps a new network namespace
 * ready, waits for a channel, clones init, hands init's pidfd up the channel and waits for init's end.
 *
 * Ends when the host closes its control socket.
 */

#include "launcher.h"

#include <sched.h>
#include <signal.h>
#include <sys/wait.h>

/* With a pidfd of ourselves. */
static void answer(int control, struct sn_failure *why)
{
	owned_fd self = (int)sys(NR_pidfd_open, sys(SYS_getpid), 0);
	if (self < 0 && !why->stage)
		fail(why, SN_STAGE_CLONE, self, "pidfd of a slot");
	channel_answer(control, why, self);
}

static void say(int channel, uint32_t kind, int pid, int pidfd, uint32_t held, const struct sn_failure *why)
{
	struct sn_report report = {.version = SN_WIRE_VERSION, .kind = kind, .pid = pid, .held = held, .failure = *why};
	if (channel_send(channel, &report, sizeof report, &pidfd, pidfd >= 0) == -ETOOMANYREFS) /* guests have too many in flight */
		channel_send(channel, &report, sizeof report, NULL, 0);
}

static void stamp(struct plan *plan, int control, const struct gauges *gauges, int channel, uint32_t held)
{
	struct sn_failure why = {0};
	owned_fd pidfd = -1;
	long pid = sys_clone(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS, &pidfd, SIGCHLD, -1);
	if (pid == 0) {
		sys(SYS_close, control);
		init_main(plan, gauges, channel, held);
	}
	if (pid < 0) {
		fail(&why, SN_STAGE_CLONE, pid, "init in new namespaces");
		say(channel, SN_REPORT_FAILED, 0, -1, 0, &why);
		sys(SYS_close, channel);
		return;
	}
	held |= SN_HELD_USER | SN_HELD_MOUNT | SN_HELD_PID | SN_HELD_IPC | SN_HELD_UTS | SN_HELD_ROOT; /* all that a slot can know */
	say(channel, SN_REPORT_STARTED, (int)pid, pidfd, held, &why);
	sys(SYS_close, channel);
	sys(SYS_wait4, pid, NULL, __WALL, NULL);
}

void slot_main(struct plan *plan, int control, const struct sn_control *message, const int *fds)
{
	struct gauges gauges;
	struct sn_failure why = {0};
	uint64_t print = 0;
	uint32_t held = SN_HELD_NET;
	signal(SIGCHLD, SIG_DFL);
	uint64_t child = UINT64_C(1) << (SIGCHLD - 1);
	sys(SYS_rt_sigprocmask, SIG_BLOCK, &child, NULL, sizeof child);
	if (cgroup_enter(message, fds, &gauges, &why) || netns_fresh(&print, &why)) {
		answer(control, &why);
		sys(SYS_exit_group, 1);
	}
	answer(control, &why);
	for (;;) {
		struct sn_control box;
		int channel;
		unsigned count = 1;
		if (channel_receive(control, &box, sizeof box, NULL, 0, &channel, &count) <= 0)
			break;
		if (count != 1 || box.verb != SN_BOX)
			continue;
		if (why.stage) { /* no network namespace for this one */
			say(channel, SN_REPORT_FAILED, 0, -1, 0, &why);
			sys(SYS_close, channel);
		} else {
			stamp(plan, control, &gauges, channel, held);
		}
		if (!why.stage && netns_unused(print)) {
			held = SN_HELD_NET | SN_HELD_NET_UNUSED;
			continue;
		}
		held = SN_HELD_NET;
		why = (struct sn_failure){0};
		netns_fresh(&print, &why);
	}
	sys(SYS_exit_group, 0);
	__builtin_unreachable();
}
