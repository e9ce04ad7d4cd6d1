/* The processes of a run without a pid namespace (rung landlock): whoever descends from the caller, found and ended. Called by tree.c.
 *
 * The caller is a subreaper: whoever's parent dies becomes its child, also one that made a session of its own and forked twice. So
 * everybody alive is reached through living parents, and when none of the caller's children lives nobody does.
 *
 * Why the end is certain, whatever the guest does (fork and exit at once, reap for others, continue one another): only children of the
 * caller are killed, and none is reaped before all are dead. A dead child that is not reaped keeps its number, so no signal
 * goes to anybody else, and its place in the count that the guest's hard RLIMIT_NPROC bounds (root, whom that does not bind, is bounded by its
 * group or the machine). So the list of children only grows, and not without end. Each pass over it kills those that live, who cannot
 * fork any more with SIGKILL pending, and theirs come to the caller: after the last of them there is nobody. Nor does anybody vanish
 * into a parent that ignores SIGCHLD: all are counted, with the time that they took.
 */

#include "launcher.h"

#include <dirent.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>

enum { MOST = 4096, PATH = 64, PASS_NS = 20000000 };

static int32_t members[MOST]; /* parents first */
static unsigned count;

/* A child of the caller's stays one until it is reaped. */
static bool has_ended(int32_t pid)
{
	siginfo_t info = {0};
	long result = sys(SYS_waitid, P_PID, pid, &info, WEXITED | WNOHANG | WNOWAIT | __WALL, NULL);
	return result < 0 || info.si_pid == pid;
}

static void remember(int32_t pid, bool living)
{
	if (pid > 0 && count < MOST && !(living && has_ended(pid)))
		members[count++] = pid;
}

/* The children that one thread forked: numbers, each with a space behind it. `living`: of the caller's own, those that live. Whoever
 * another leaves at its end has come to the end of the list before that, and so is read after it. -errno where it cannot be read. */
static long add_children(int tasks, const char *thread, bool living)
{
	char path[PATH] = "", text[4096];
	text_add(path, sizeof path, thread);
	text_add(path, sizeof path, "/children");
	owned_fd fd = (int)sys(SYS_openat, tasks, path, O_RDONLY | O_CLOEXEC);
	size_t kept = 0;
	long got = fd;
	while (fd >= 0 && (got = sys(SYS_read, fd, text + kept, sizeof text - 1 - kept)) > 0) {
		text[kept + (size_t)got] = 0;
		const char *at = text;
		for (const char *space; (space = strchr(at, ' ')); at = space + 1)
			remember((int32_t)text_number(at, NULL), living);
		kept = strlen(at);
		memmove(text, at, kept);
	}
	return got;
}

static long add_own_children(bool living)
{
	count = 0;
	return add_children(AT_FDCWD, "/proc/thread-self", living);
}

static void add_children_of(int proc, int32_t pid)
{
	char path[PATH] = "", entries[2048];
	text_add_number(path, sizeof path, (uint64_t)pid);
	text_add(path, sizeof path, "/task");
	owned_fd tasks = (int)sys(SYS_openat, proc, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	long got;
	while (tasks >= 0 && (got = sys(SYS_getdents64, tasks, entries, sizeof entries)) > 0) {
		for (long at = 0; at < got;) {
			struct dirent64 *entry = (void *)(entries + at);
			if (entry->d_name[0] != '.')
				add_children(tasks, entry->d_name, false);
			at += entry->d_reclen;
		}
	}
}

struct sampled descendants_each(tree_visit *visit, uint64_t until)
{
	struct sampled sum = {0};
	owned_fd proc = (int)sys(SYS_openat, AT_FDCWD, "/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	add_own_children(false);
	for (unsigned i = 0; i < count && clock_ns(CLOCK_MONOTONIC) < until; i++) {
		char number[16] = "";
		text_add_number(number, sizeof number, (uint64_t)members[i]);
		visit(proc, number, &sum);
		add_children_of(proc, members[i]);
	}
	return sum;
}

/* Whether any child lived. */
static bool kill_children(void)
{
	long listed = add_own_children(true);
	for (unsigned i = 0; i < count; i++)
		sys(SYS_kill, members[i], SIGKILL);
	return count || listed < 0;
}

/* Returns when all are dead, and leaves them to be reaped. SIGCHLD must not be ignored: then nobody would stay. */
void descendants_kill(void)
{
	uint64_t child = UINT64_C(1) << (SIGCHLD - 1), before;
	sys(SYS_rt_sigprocmask, SIG_BLOCK, &child, &before, sizeof child);
	while (!tree_is_empty(true) && kill_children())
		sys(SYS_rt_sigtimedwait, &child, NULL, &(struct timespec){.tv_nsec = PASS_NS}, sizeof child);
	sys(SYS_rt_sigprocmask, SIG_SETMASK, &before, NULL, sizeof before);
}
