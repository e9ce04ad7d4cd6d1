/* The template: builds the root, gives up the host's tree and (as root) the host's privileges, then serves the host (serve.c), or starts an
 * interpreter that does (warm_start.c).
 */

#include "launcher.h"

#include <sched.h>

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
