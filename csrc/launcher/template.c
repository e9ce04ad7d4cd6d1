/* The template: builds the root, gives up the host's tree and (as root) the host's privileges, then forks a slot whenever
 * the host asks for one. Ends when the host closes its control socket, after its slots.
 */

#include "launcher.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

/* v2: leave the host's group, so that init is not in a slot's leaf and the common ancestor is ours. */
static int enter_group(const struct plan *plan, struct sn_failure *why)
{
	const char *path = plan_text(plan, plan->head->enter_at);
	if (!path)
		return 0;
	owned_fd fd = (int)sys(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CLOEXEC);
	long wrote = fd < 0 ? fd : sys(SYS_write, fd, "0", 1);
	return wrote < 0 ? fail(why, SN_STAGE_CGROUP, wrote, path) : 0;
}

static int stand(struct plan *plan, int mapper, struct sn_failure *why)
{
	if (enter_group(plan, why))
		return -1;
	if (plan_bare(plan))
		return 0;
	long result = sys(SYS_unshare, CLONE_NEWNS);
	if (result < 0)
		return fail(why, SN_STAGE_MOUNTNS, result, "new mount namespace");
	if (root_build(plan, why))
		return -1;
	return plan_as_root(plan) ? userns_become_box(plan, mapper, why) : 0;
}

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

int template_main(struct plan *plan, int control, int mapper)
{
	struct sn_failure why = {0};
	int stood = stand(plan, mapper, &why);
	sys(SYS_close, mapper);
	if (!stood && plan_warm(plan))
		return warm_start(plan, control);
	channel_answer(control, &why, -1);
	if (stood)
		return 1;
	template_serve(plan, control);
	return 0;
}
