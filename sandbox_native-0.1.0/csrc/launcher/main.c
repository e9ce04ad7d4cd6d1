/* The launcher: started once for each plan by the host, with /dev/null on 0, 1 and 2 and its control socket on 3.
 *
 * Theory of operation. The launcher stays in (a copy of) the host's file tree with the host's credentials and
 * does what needs them: it maps ids for the template, makes a detached mount of a host directory or a supervisor on request, and
 * removes the control groups at the end. The template, its first child, builds the root and loses all of that; everything that is
 * ever near a guest descends from the template. A plain user's launcher first enters a user namespace, in which it is
 * allowed to do the same things.
 *
 * Each process ends when the host's end of its socket closes, after its descendants: a host that was killed takes everything with it.
 * Nothing is bound to a thread of the host's (no parent-death signal).
 */

#include "launcher.h"

#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>

enum { CONTROL = 3 };

/* A tree of its own that still hears of the host's later mounts. */
static int copy_tree(const struct plan *plan, struct sn_failure *why)
{
	if (plan_bare(plan))
		return 0;
	if (!plan_as_root(plan)) {
		if (userns_enter_self(plan, why))
			return -1;
	} else {
		long result = sys(SYS_unshare, CLONE_NEWNS);
		if (result < 0)
			return fail(why, SN_STAGE_MOUNTNS, result, "new mount namespace");
	}
	long result = sys(SYS_mount, NULL, "/", NULL, MS_REC | MS_SLAVE, NULL);
	return result < 0 ? fail(why, SN_STAGE_MOUNTNS, result, "/") : 0;
}

/* Its pid. */
static long start_template(struct plan *plan, int control, struct sn_failure *why)
{
	int mapper[2];
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, mapper))
		return fail(why, SN_STAGE_CHANNEL, errno, "mapper");
	long pid = sys_clone(0, NULL, SIGCHLD, -1);
	if (pid == 0) {
		sys(SYS_close, CONTROL);
		sys(SYS_close, mapper[0]);
		sys(SYS_exit_group, template_main(plan, control, mapper[1]));
	}
	sys(SYS_close, mapper[1]);
	sys(SYS_close, control);
	if (pid > 0 && plan_as_root(plan) && !plan_bare(plan))
		userns_serve_mapper(plan, mapper[0], pid);
	sys(SYS_close, mapper[0]);
	return pid < 0 ? fail(why, SN_STAGE_CLONE, pid, "template") : pid;
}

static void serve(struct plan *plan)
{
	static struct sn_control message;
	int fds[2];
	unsigned count = 2;
	for (; channel_receive(CONTROL, &message, sizeof message, NULL, 0, fds, &count) > 0; count = 2) {
		struct sn_failure why = {0};
		owned_fd made = -1;
		if (message.verb == SN_BIND)
			made = mount_clone(plan, -1, message.path, message.flags, message.device, message.inode, &why);
		else if (message.verb == SN_EXPLAIN && count == 2)
			made = supervise_start(plan, fds[0], fds[1], &why);
		else
			fail(&why, SN_STAGE_PLAN, EPROTO, "control message");
		channel_answer(CONTROL, &why, made);
		for (unsigned i = 0; i < count; i++)
			sys(SYS_close, fds[i]);
	}
}

static int start(struct plan *plan, int *template_control, struct sn_failure *why)
{
	struct sn_control message;
	int fds[2];
	unsigned count = 2;
	long got = channel_receive(CONTROL, &message, sizeof message, NULL, 0, fds, &count);
	if (got <= 0)
		sys(SYS_exit_group, 0);
	if (got < 8 || message.version != SN_WIRE_VERSION || message.verb != SN_START || !count)
		return fail(why, SN_STAGE_PLAN, EPROTO, "start message");
	if (plan_read(fds[0], plan, why))
		return -1;
	if (plan_warm(plan))
		plan->fd = fds[0];
	else
		sys(SYS_close, fds[0]);
	if (plan->head->flags & SN_PLAN_PROBE) {
		struct sn_probes probes = {.version = SN_WIRE_VERSION};
		probe_all(plan, &probes);
		channel_send(CONTROL, &probes, sizeof probes, NULL, 0);
		sys(SYS_exit_group, 0);
	}
	if (count != 2)
		return fail(why, SN_STAGE_PLAN, EPROTO, "start message");
	*template_control = fds[1];
	return copy_tree(plan, why);
}

/* Without a pid namespace: whoever is left when the template and its slots are gone, since those in charge were killed. */
static void end_orphans(long template)
{
	sys(SYS_wait4, template, NULL, __WALL, NULL);
	signal(SIGCHLD, SIG_DFL);
	tree_end();
}

/* All guests of a user share one count of descriptors that are under way in sockets, and a sender is held against its own limit: so
 * ours is as high as may be, above what any guest can have. */
static void raise_descriptors(void)
{
	struct rlimit files;
	if (!getrlimit(RLIMIT_NOFILE, &files)) {
		files.rlim_cur = files.rlim_max;
		setrlimit(RLIMIT_NOFILE, &files);
	}
}

int main(void)
{
	static struct plan plan = {.fd = -1, .idmap_fd = -1, .ruleset = -1};
	struct sn_failure why = {0};
	int template_control = -1;
	long template = -1;
	signal(SIGCHLD, SIG_IGN);
	sys(SYS_prctl, PR_SET_DUMPABLE, 0);
	sys(SYS_prctl, PR_SET_CHILD_SUBREAPER, 1);
	sys(SYS_umask, 022); /* the host's own may hide the root's directories from the guest */
	sys(SYS_fcntl, CONTROL, F_SETFD, FD_CLOEXEC);
	raise_descriptors();
	if (start(&plan, &template_control, &why) || (template = start_template(&plan, template_control, &why)) < 0) {
		channel_answer(CONTROL, &why, -1);
		return 1;
	}
	serve(&plan);
	if (plan_bare(&plan))
		end_orphans(template);
	sys(SYS_wait4, -1, NULL, __WALL, NULL);
	cgroup_remove_all(&plan);
	return 0;
}
