/* Starts the interpreter that warm guests are clones of: in the template's root, as PID 1 of namespaces of its own, without a capability, with
 * the control socket as descriptor 3 and the plan as 4. Its bootstrap imports what it should, and then loads warm.c, which
 * answers and serves the host in the template's place.
 */

#include "launcher.h"

#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>

enum { CONTROL = 3, PLAN = 4, MOST_STRINGS = 256 };

/* What every box mounts, but what hides parts of it: a box may have a /proc only where it sees a whole one. */
static int furnish(const struct plan *plan, struct sn_failure *why)
{
	const struct sn_op *op = (const void *)(plan->base + plan->head->box_at);
	uint32_t held = 0;
	for (uint32_t i = 0; i < plan->head->box_count; i++)
		if ((op[i].kind == SN_OP_TMPFS || op[i].kind == SN_OP_PROC || op[i].kind == SN_OP_BIND) &&
		    mount_box_op(plan, op + i, &held, why))
			return -1;
	return 0;
}

static const char **strings(const struct plan *plan, const uint32_t *at, uint32_t count, const char **room)
{
	const char **first = room;
	for (uint32_t i = 0; i < count; i++)
		*room++ = plan_text(plan, at[i]);
	*room = NULL;
	return first;
}

static int execute(const struct plan *plan, int control, struct sn_failure *why)
{
	static const char *room[2 * MOST_STRINGS];
	const struct sn_plan *head = plan->head;
	const uint32_t *at = (const void *)(plan->base + head->warm_at);
	if (head->warm_argc >= MOST_STRINGS || head->warm_envc >= MOST_STRINGS)
		return fail(why, SN_STAGE_PLAN, E2BIG, "interpreter");
	const char **argv = strings(plan, at, head->warm_argc, room);
	const char **env = strings(plan, at + head->warm_argc, head->warm_envc, room + MOST_STRINGS);
	owned_fd kept = (int)sys(SYS_fcntl, control, F_DUPFD_CLOEXEC, 16); /* for a word of what goes wrong */
	owned_fd text = (int)sys(SYS_fcntl, plan->fd, F_DUPFD_CLOEXEC, 16);
	long result = sys(SYS_dup3, kept, CONTROL, 0);
	if (result >= 0)
		result = sys(SYS_dup3, text, PLAN, 0);
	if (result >= 0)
		result = sys(SYS_execve, argv[0], argv, env);
	return fail(why, SN_STAGE_WARM, result, argv[0]);
}

static int interpret(struct plan *plan, int control, struct sn_failure *why)
{
	uint32_t held = 0;
	if (netns_fresh(why) || furnish(plan, why))
		return -1;
	const char *hostname = plan_text(plan, plan->head->hostname_at);
	long result = hostname ? sys(SYS_sethostname, hostname, strlen(hostname)) : 0;
	if (result < 0)
		return fail(why, SN_STAGE_HOSTNAME, result, hostname);
	sys(SYS_umask, 022);
	result = sys(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	if (result < 0 || (result = sys(SYS_chdir, plan_text(plan, plan->head->workspace_at))) < 0)
		return fail(why, SN_STAGE_CREDS, result, "interpreter");
	return creds_drop(&held, why) ? -1 : execute(plan, control, why);
}

/* To its end, which comes at once when the host has closed its socket: an import may go on for long. */
static void watch(long pid, int pidfd, int control)
{
	struct pollfd watched[] = {{.fd = control, .events = POLLRDHUP}, {.fd = pidfd, .events = POLLIN}};
	while (!watched[0].revents && !watched[1].revents && sys(SYS_ppoll, watched, 2, NULL, NULL, 8) == -EINTR)
		continue;
	sys(SYS_kill, pid, SIGKILL);
	sys(SYS_wait4, -1, NULL, __WALL, NULL);
}

int warm_start(struct plan *plan, int control)
{
	struct sn_failure why = {0};
	int pidfd = -1;
	signal(SIGCHLD, SIG_DFL);
	long pid = sys_clone(CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS, &pidfd, SIGCHLD, -1);
	if (pid == 0) {
		interpret(plan, control, &why);
		channel_answer(control, &why, -1);
		sys(SYS_exit_group, 1);
	}
	if (pid < 0) {
		fail(&why, SN_STAGE_CLONE, pid, "interpreter");
		channel_answer(control, &why, -1);
		return 1;
	}
	watch(pid, pidfd, control);
	return 0;
}
