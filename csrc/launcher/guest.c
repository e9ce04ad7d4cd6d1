/* From the clone to execve. The child shares init's memory and descriptor table and init sleeps until execve, so:
 * raw system calls only, no allocation, no lock, nothing of init's is changed but *guest.
 *
 * The order matters: limits and the cgroup namespace while there are capabilities; the filter once nothing privileged
 * is left to do; the descriptors after the filter, because its listener arrives in the table that init shares.
 */

#include "launcher.h"

#include <sched.h>
#include <signal.h>
#include <sys/stat.h>

static int session(struct guest *guest)
{
	long result = sys(SYS_setsid);
	if (result < 0)
		return fail(&guest->why, SN_STAGE_SESSION, result, "setsid");
	result = sys(SYS_chdir, guest->request->cwd);
	if (result < 0)
		return fail(&guest->why, SN_STAGE_CWD, result, guest->request->cwd);
	guest->held |= SN_HELD_SESSION;
	return 0;
}

/* A CPU quota on v1 is a group of the guest's own: with init in it, 64 spinning threads would keep init from seeing the deadline. The
 * move waits 5 to 12 ms for the kernel, in the runs that ask for a quota only. */
static int cpu_group(struct guest *guest)
{
	long wrote = guest->cpu_group < 0 ? 0 : sys(SYS_write, guest->cpu_group, "0", 1);
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

static __attribute__((noreturn, noinline)) void guest_main(struct guest *guest)
{
	if (session(guest) || same_program(guest) || cpu_group(guest) || cgroup_namespace(guest) ||
	    limits_apply(&guest->request->head, false, &guest->rlimits_kept, &guest->held, &guest->why) ||
	    creds_drop(&guest->held, &guest->why) || landlock_enter(guest->plan, &guest->held, &guest->why) ||
	    seccomp_install(guest->plan, guest->request->supervisor, &guest->listener, &guest->held, &guest->why) || descriptors(guest) ||
	    limits_apply(&guest->request->head, true, &guest->rlimits_kept, &guest->held, &guest->why) ||
	    signals(guest) || execute(guest))
		sys(SYS_exit_group, 127);
	__builtin_unreachable();
}

int __attribute__((noinline)) guest_start(struct guest *guest, int cgroup)
{
	long pid = sys_clone(CLONE_VM | CLONE_VFORK | CLONE_FILES, NULL, SIGCHLD, cgroup);
	if (pid == 0)
		guest_main(guest);
	guest->pid = pid;
	if (pid < 0)
		return cgroup >= 0 ? fail(&guest->why, SN_STAGE_CGROUP, pid, "clone3 into the control group")
				   : fail(&guest->why, SN_STAGE_CLONE, pid, "guest");
	return guest->why.stage ? -1 : 0;
}
