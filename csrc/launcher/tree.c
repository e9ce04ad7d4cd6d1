/* The processes of a run, visited, counted and ended. In a pid namespace they are what its /proc shows, and one call reaches them all; without
 * one (`bare`) they are the caller's descendants (descendants.c).
 */

#include "launcher.h"

#include <dirent.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>

enum { PATH = 64 };

long tree_read(int proc, const char *pid, const char *name, char *text, size_t size)
{
	char path[PATH] = "";
	text_add(path, sizeof path, pid);
	text_add(path, sizeof path, name);
	owned_fd fd = (int)sys(SYS_openat, proc, path, O_RDONLY | O_CLOEXEC);
	long got = fd < 0 ? fd : sys(SYS_read, fd, text, size - 1);
	text[got > 0 ? got : 0] = 0;
	return got;
}

/* ---- in a pid namespace ---- */

static struct sampled each_shown(tree_visit *visit, uint64_t until)
{
	char entries[8192];
	struct sampled sum = {0};
	owned_fd proc = (int)sys(SYS_openat, AT_FDCWD, "/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	long got;
	while (proc >= 0 && (got = sys(SYS_getdents64, proc, entries, sizeof entries)) > 0) {
		for (long at = 0; at < got && clock_ns(CLOCK_MONOTONIC) < until;) {
			struct dirent64 *entry = (void *)(entries + at);
			if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9' && strcmp(entry->d_name, "1"))
				visit(proc, entry->d_name, &sum);
			at += entry->d_reclen;
		}
	}
	return sum;
}

/* ---- either ---- */

struct sampled tree_each(bool bare, tree_visit *visit, uint64_t until)
{
	return bare ? descendants_each(visit, until) : each_shown(visit, until);
}

/* Whether nobody is left, also none that is dead and not reaped. */
bool tree_is_empty(bool bare)
{
	if (bare)
		return sys(SYS_waitid, P_ALL, 0, NULL, WEXITED | WNOHANG | WNOWAIT | __WALL, NULL) == -ECHILD;
	return sys(SYS_kill, -1, 0) < 0; /* ESRCH, the rule */
}

/* Afterwards everybody is dead or about to be, and to be waited for. kill(-1) from PID 1 reaches every process of the namespace and no other. A
 * fork that is under way sees the pending signal and fails, so there one call is enough. */
void tree_kill(bool bare)
{
	if (bare)
		descendants_kill();
	else
		sys(SYS_kill, -1, SIGKILL);
}

/* Without a pid namespace: for what an init left that was killed itself. Children must not be reaped by themselves (SIGCHLD ignored). */
void tree_end(void)
{
	tree_kill(true);
	while (sys(SYS_wait4, -1, NULL, __WALL, NULL) > 0)
		;
}
