/* The template, or the interpreter in its place, at work: it forks a slot whenever the host asks for one. Ends when the host closes its
 * control socket, after its slots.
 */

#include "launcher.h"

#include <signal.h>
#include <sys/wait.h>

static void open_slot(struct plan *plan, int control, const struct sn_control *message, const int *fds, unsigned count)
{
	struct sn_failure why = {0};
	if (!count || message->gauges != count - 1 || message->gauges > SN_MAX_GAUGES) {
		fail(&why, SN_STAGE_PLAN, EPROTO, "slot");
		channel_answer(count ? fds[0] : control, &why, -1);
	} else {
		long pid = sys_clone(0, NULL, SIGCHLD, -1);
		if (pid == 0) {
			sys(SYS_close, control);
			slot_main(plan, fds[0], message, fds + 1);
		}
		if (pid < 0) {
			fail(&why, SN_STAGE_CLONE, pid, "slot");
			channel_answer(fds[0], &why, -1);
		}
	}
	for (unsigned i = 0; i < count; i++)
		sys(SYS_close, fds[i]);
}

void template_serve(struct plan *plan, int control)
{
	for (;;) {
		static struct sn_control message;
		int fds[CHANNEL_MAX_FDS];
		unsigned count = CHANNEL_MAX_FDS;
		if (channel_receive(control, &message, sizeof message, NULL, 0, fds, &count) <= 0)
			break;
		open_slot(plan, control, &message, fds, count);
	}
	sys(SYS_wait4, -1, NULL, __WALL, NULL); /* SIGCHLD is ignored: returns when the last slot is gone */
}
