/* Starts the launcher, and sees it off. In the host process; called by backends/engine.py and features.py.
 *
 * The host does not fork, and the launcher must not be its child: execve resets the exit signal to SIGCHLD, so the host's
 * handlers would hear of it and any waitpid(-1) of another library would take it. So:
 *
 *     host thread --clone(VM|VFORK|FILES, exit signal 0)--> middle --clone(VM|VFORK|PIDFD)--> launcher
 *
 * The middle process lives for some hundred microseconds. It has no exit signal, so only a wait with
 * __WALL sees it. It shares the descriptor table: that is how the launcher's pidfd gets to the host. The launcher has a
 * table of its own. When the middle is gone the launcher belongs to PID 1, or to the host where that is PID 1
 * or a subreaper: sn_process_close() then reaps it, by pidfd and nobody else.
 *
 * RULES between clone and exec: both children share the host's memory while its thread stands still. They make raw
 * system calls only, on parameters that were prepared before: no allocation, lock, stdio or formatting.
 * errno is that of the waiting thread. All signals are blocked, so no handler of the host can run in them, until
 * the launcher's dispositions are the defaults.
 */

#include "host.h"

#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>

#ifndef P_PIDFD
#define P_PIDFD 3
#endif

enum {
	STACK_BYTES = 32768, /* of each child; they call little and nothing deep */
	SIGNALS = 64,
	FIRST_FREE_FD = 4,   /* the launcher has 0, 1, 2 (/dev/null) and 3 (control) */
	MAX_FDS = 1 << 20,   /* fs.nr_open as the kernel ships it */
};

struct start { /* shared with both children, which fill the last three */
	const char *path;
	char *const *argv;
	char *const *env;
	uint8_t *launcher_stack;
	unsigned long fd_limit;
	int control;
	int pidfd;
	volatile int pid;
	volatile int error;
};

/* The kernel's struct sigaction: 0 (the default), 1 (ignore) or a handler first, then flags, restorer, mask; 32 bytes
 * hold it on every architecture that we build for. */
struct kernel_sigaction {
	uint64_t handler;
	uint64_t rest[3];
};

/* What the children point the kernel at is static: their stacks are left by execve, never unwound, and
 * AddressSanitizer would hold what was on them against the next start. */
static const struct kernel_sigaction ignored = {.handler = 1}, standard;
static const uint64_t no_signals;

static void reset_signals(void)
{
	for (int signal = 1; signal <= SIGNALS; signal++) {
		/* Ignoring throws away what is pending: a Ctrl-C that came before setsid was not meant for the launcher. */
		syscall(SYS_rt_sigaction, signal, &ignored, NULL, sizeof(uint64_t));
		syscall(SYS_rt_sigaction, signal, &standard, NULL, sizeof(uint64_t));
	}
}

static void close_from(int first, unsigned long limit)
{
	if (!syscall(NR_close_range, first, ~0u, 0))
		return;
	for (unsigned long fd = (unsigned long)first; fd < limit; fd++)
		syscall(SYS_close, fd);
}

/* /dev/null on 0, 1, 2 and the control socket on 3. Both are first moved above 3, since a host with its own standard
 * descriptors closed may have any of them anywhere. dup3 clears close-on-exec on what it makes. */
static bool arrange_fds(const struct start *start)
{
	long control = syscall(SYS_fcntl, start->control, F_DUPFD, FIRST_FREE_FD);
	long null = syscall(SYS_openat, AT_FDCWD, "/dev/null", O_RDWR);
	if (control < 0 || null < 0)
		return false;
	null = syscall(SYS_fcntl, null, F_DUPFD, FIRST_FREE_FD);
	if (null < 0)
		return false;
	for (int fd = 0; fd < 3; fd++)
		if (syscall(SYS_dup3, null, fd, 0) < 0)
			return false;
	if (syscall(SYS_dup3, control, 3, 0) < 0)
		return false;
	close_from(FIRST_FREE_FD, start->fd_limit);
	return true;
}

static int launcher_child(void *shared)
{
	struct start *start = shared;
	syscall(SYS_setsid);
	reset_signals();
	if (arrange_fds(start)) {
		syscall(SYS_rt_sigprocmask, SIG_SETMASK, &no_signals, NULL, sizeof no_signals);
		syscall(SYS_execve, start->path, start->argv, start->env);
	}
	start->error = errno;
	syscall(SYS_exit_group, 127);
	return 127;
}

static int middle_child(void *shared)
{
	struct start *start = shared;
	int pid = clone(launcher_child, start->launcher_stack, CLONE_VM | CLONE_VFORK | CLONE_PIDFD, start, &start->pidfd);
	if (pid < 0)
		start->error = errno;
	else if (start->error)
		syscall(SYS_wait4, pid, NULL, __WALL, NULL); /* else it would be handed to the host's reaper */
	start->pid = pid;
	syscall(SYS_exit_group, 0);
	return 0;
}

/* Runs the middle process to its end: 0, or -errno. */
static int run_middle(struct start *start)
{
	uint8_t *stacks = mmap(NULL, 2 * STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
	if (stacks == MAP_FAILED)
		return -errno;
	start->launcher_stack = stacks + STACK_BYTES;
	uint64_t before = signals_mask(SIG_SETMASK, ~(uint64_t)0);
	int middle = clone(middle_child, stacks + 2 * STACK_BYTES, CLONE_VM | CLONE_VFORK | CLONE_FILES, start);
	int error = middle < 0 ? errno : start->error;
	if (middle > 0)
		syscall(SYS_wait4, middle, NULL, __WALL, NULL); /* ECHILD: another thread waits with __WALL; as good */
	signals_mask(SIG_SETMASK, before);
	munmap(stacks, 2 * STACK_BYTES);
	return -error;
}

int sn_launcher_start(const char *path, struct sn_process *launcher, struct sn_failure *why)
{
	static char name[] = "sandbox-native-launcher";
	char *const argv[] = {name, NULL};
	char *const env[] = {NULL};
	struct rlimit files = {.rlim_cur = MAX_FDS};
	int pair[2];

	*launcher = (struct sn_process){.pidfd = -1, .control = -1};
	getrlimit(RLIMIT_NOFILE, &files);
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return failed(why, SN_STAGE_SPAWN, errno, "control socket");
	owned_fd ours = pair[0], theirs = pair[1];

	struct start start = {
		.path = path,
		.argv = argv,
		.env = env,
		.fd_limit = files.rlim_cur < MAX_FDS ? files.rlim_cur : MAX_FDS,
		.control = theirs,
		.pidfd = -1,
	};
	int error = run_middle(&start);
	owned_fd pidfd = start.pidfd;
	if (error)
		return failed(why, SN_STAGE_SPAWN, -error, path);
	if (start.pid <= 0) /* the middle was killed before it could say */
		return failed(why, SN_STAGE_SPAWN, ECHILD, path);
	*launcher = (struct sn_process){.pid = start.pid, .pidfd = fd_move(&pidfd), .control = fd_move(&ours)};
	return 0;
}

int pidfd_kill(int pidfd)
{
	return syscall(NR_pidfd_send_signal, pidfd, SIGKILL, NULL, 0) < 0 ? -errno : 0;
}

bool pidfd_wait(int pidfd, int timeout_ms)
{
	struct pollfd end = {.fd = pidfd, .events = POLLIN};
	for (uint64_t until = now_ns() + (uint64_t)timeout_ms * 1000000u;;) {
		int got = poll(&end, 1, left_ms(until));
		if (got > 0)
			return true;
		if (!got || errno != EINTR)
			return false;
	}
}

void sn_process_hang_up(struct sn_process *process)
{
	if (process->control >= 0)
		shutdown(process->control, SHUT_RDWR);
}

int sn_process_close(struct sn_process *process, int timeout_ms, enum sn_kill kill)
{
	owned_fd pidfd = fd_move(&process->pidfd);
	owned_fd control = fd_move(&process->control);
	if (kill == SN_KILL_FIRST && pidfd >= 0)
		pidfd_kill(pidfd);
	if (control >= 0)
		shutdown(control, SHUT_RDWR); /* a forked child of the host may hold a copy: closing ours would not end it */
	if (pidfd < 0)
		return 0;
	bool gone = pidfd_wait(pidfd, timeout_ms);
	if (!gone && kill == SN_KILL_LATE) {
		pidfd_kill(pidfd);
		gone = pidfd_wait(pidfd, timeout_ms);
	}
	/* Only where the host is its parent (PID 1 or a subreaper); by pidfd, since the pid may have been reaped and reused. */
	siginfo_t info;
	syscall(SYS_waitid, P_PIDFD, pidfd, &info, WEXITED | WNOHANG | __WALL, NULL);
	return gone ? 0 : -ETIMEDOUT;
}
