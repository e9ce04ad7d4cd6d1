/* The processes of a run, found and ended. In a pid namespace they are what its /proc shows, and one call reaches them all.
 *
 * On the rung without namespaces (`bare`) they are what descends from the caller. It is a subreaper: whoever's parent dies becomes its child,
 * also one that made a session of its own and forked twice. So nobody is left when it has no child, and everybody alive is reached
 * through living parents. The host's other processes are in the same /proc and have the same user, so nobody is ever
 * signalled by number: a pidfd is opened first and its process's parent looked at then, and if that is not who was found in the tree, the
 * number has gone to somebody else.
 */

#include "launcher.h"

#include <dirent.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

enum { MOST = 4096, PATH = 64, STOP_PASSES = 4, WHOLE_GROUP = 4 /* PIDFD_SIGNAL_PROCESS_GROUP */ };

struct member {
	int32_t pid, parent;
};

static struct member members[MOST]; /* parents first */
static unsigned count;

static int open_proc(void)
{
	return (int)sys(SYS_openat, AT_FDCWD, "/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

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

/* ---- without a pid namespace ---- */

static void remember(int32_t pid, int32_t parent)
{
	if (pid > 0 && count < MOST)
		members[count++] = (struct member){pid, parent};
}

/* The children that one thread forked: numbers, each with a space behind it. */
static void add_children(int tasks, const char *thread, int32_t parent)
{
	char path[PATH] = "", text[4096];
	text_add(path, sizeof path, thread);
	text_add(path, sizeof path, "/children");
	owned_fd fd = (int)sys(SYS_openat, tasks, path, O_RDONLY | O_CLOEXEC);
	size_t kept = 0;
	long got;
	while (fd >= 0 && (got = sys(SYS_read, fd, text + kept, sizeof text - 1 - kept)) > 0) {
		text[kept + (size_t)got] = 0;
		const char *at = text;
		for (const char *space; (space = strchr(at, ' ')); at = space + 1)
			remember((int32_t)text_number(at, NULL), parent);
		kept = strlen(at);
		memmove(text, at, kept);
	}
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
				add_children(tasks, entry->d_name, pid);
			at += entry->d_reclen;
		}
	}
}

struct limits {
	uint64_t now, most;
};

struct standing {
	int32_t parent; /* -1: it is gone */
	char state;
};

/* Fields 3 and 4 of stat. The name, field 2, may hold anything: count from its last ')'. */
static struct standing standing_of(int proc, int32_t pid)
{
	char number[16] = "", text[1024];
	text_add_number(number, sizeof number, (uint64_t)pid);
	const char *end = tree_read(proc, number, "/stat", text, sizeof text) > 0 ? strrchr(text, ')') : NULL;
	if (!end || strlen(end) <= 4)
		return (struct standing){.parent = -1};
	return (struct standing){.parent = (int32_t)text_number(end + 4, NULL), .state = end[2]};
}

/* To the process, and to its group where it leads one: a fork that is under way there does not escape that. No group of a run holds anybody
 * else, since a run begins with a session of its own. */
static void send(int pidfd, int number)
{
	sys(NR_pidfd_send_signal, pidfd, number, NULL, WHOLE_GROUP);
	sys(NR_pidfd_send_signal, pidfd, number, NULL, 0);
}

/* Its forks fail, and those of children that it has already, though somebody continues it. The limit goes by number, so only the soft one
 * is lowered: if the process was gone by then, whoever has its number gets the limit back. (A guest that is continued may raise it: then the
 * next pass lowers it again.) */
static void forbid_forks(int pidfd, int32_t pid)
{
	struct limits none, before;
	if (sys(SYS_prlimit64, pid, RLIMIT_NPROC, NULL, &before) || !before.now)
		return;
	none = (struct limits){.now = 0, .most = before.most};
	if (!sys(SYS_prlimit64, pid, RLIMIT_NPROC, &none, &before) && sys(NR_pidfd_send_signal, pidfd, 0, NULL, 0) == -ESRCH)
		sys(SYS_prlimit64, pid, RLIMIT_NPROC, &before, NULL);
}

/* Whether it was awake: it may have forked since its parent's children were listed. */
static bool halt(int proc, const struct member *member, int number)
{
	owned_fd pidfd = (int)sys(NR_pidfd_open, member->pid, 0);
	struct standing is = standing_of(proc, member->pid);
	if (pidfd < 0 || is.parent != member->parent)
		return is.parent > 0;
	send(pidfd, number);
	forbid_forks(pidfd, member->pid);
	return !strchr("TtZXD", is.state);
}

/* How many of those found were awake. They are looked for, and with `number` halted by that signal, from the top down. */
static unsigned find_all(int proc, int number)
{
	unsigned awake = 0;
	count = 0;
	add_children_of(proc, (int32_t)sys(SYS_getpid));
	for (unsigned i = 0; i < count; i++) {
		if (number)
			awake += halt(proc, &members[i], number); /* before its children are listed: it has no more then */
		add_children_of(proc, members[i].pid);
	}
	return awake;
}

/* Stopped until a pass finds everybody so: whose parent dies meanwhile, or who is made a sibling of its parent, is found where a pass has
 * been already. The bound is for a guest whose processes continue one another. */
static void stop_found(int proc)
{
	for (int pass = 0; find_all(proc, SIGSTOP) && pass < STOP_PASSES; pass++)
		;
}

/* From the bottom up, while parents are still there to tell whose child is whose; where they do not stay stopped, as they are found. */
static void kill_found(void)
{
	owned_fd proc = open_proc();
	if (find_all(proc, SIGSTOP)) {
		find_all(proc, SIGKILL);
		return;
	}
	while (count) {
		const struct member *last = &members[--count];
		owned_fd pidfd = (int)sys(NR_pidfd_open, last->pid, 0);
		if (pidfd >= 0 && standing_of(proc, last->pid).parent == last->parent)
			send(pidfd, SIGKILL);
	}
}

static struct sampled each_found(tree_visit *visit)
{
	struct sampled sum = {0};
	owned_fd proc = open_proc();
	find_all(proc, 0);
	for (unsigned i = 0; i < count; i++) {
		char number[16] = "";
		text_add_number(number, sizeof number, (uint64_t)members[i].pid);
		visit(proc, number, &sum);
	}
	return sum;
}

/* ---- in a pid namespace ---- */

static struct sampled each_shown(tree_visit *visit)
{
	char entries[8192];
	struct sampled sum = {0};
	owned_fd proc = open_proc();
	long got;
	while (proc >= 0 && (got = sys(SYS_getdents64, proc, entries, sizeof entries)) > 0) {
		for (long at = 0; at < got;) {
			struct dirent64 *entry = (void *)(entries + at);
			if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9' && strcmp(entry->d_name, "1"))
				visit(proc, entry->d_name, &sum);
			at += entry->d_reclen;
		}
	}
	return sum;
}

/* ---- either ---- */

struct sampled tree_each(bool bare, tree_visit *visit)
{
	return bare ? each_found(visit) : each_shown(visit);
}

bool tree_is_empty(bool bare)
{
	if (bare)
		return sys(SYS_waitid, P_ALL, 0, NULL, WEXITED | WNOHANG | WNOWAIT | __WALL, NULL) == -ECHILD;
	return sys(SYS_kill, -1, 0) < 0; /* ESRCH, the rule: nobody is left */
}

/* Nobody runs any more, as far as that can be had: then what is counted is true, and counting does not wait for the guest's turns. */
void tree_stop(bool bare)
{
	owned_fd proc = bare ? open_proc() : -1;
	if (bare)
		stop_found(proc);
}

/* One pass. kill(-1) from PID 1 reaches every process of the namespace and no other. A fork that is under way sees the pending signal and
 * fails, so there one pass is enough. */
void tree_kill(bool bare)
{
	if (bare)
		kill_found();
	else
		sys(SYS_kill, -1, SIGKILL);
}

/* Without a pid namespace: for what an init left that was killed itself. Children must not be reaped by themselves (SIGCHLD ignored). */
void tree_end(void)
{
	tree_stop(true);
	while (!tree_is_empty(true)) {
		tree_kill(true);
		while (sys(SYS_wait4, -1, NULL, __WALL | WNOHANG, NULL) > 0)
			;
		nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
	}
}
