/* Forks without end, in every way that leaves a parent, a session or a group behind: `storm MILLISECONDS [resist]`. The first process
 * exits after that time. With `resist` every process also continues all others, raises its own limit of processes again, and some
 * reap for others without a word. All end by themselves after SECONDS.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SECONDS = 20 };

static long seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec;
}

static void resist(void)
{
	struct rlimit tasks;

	getrlimit(RLIMIT_NPROC, &tasks);
	tasks.rlim_cur = tasks.rlim_max;
	setrlimit(RLIMIT_NPROC, &tasks);
	kill(-1, SIGCONT);
}

static void multiply(int resists)
{
	switch (rand() % 4) {
	case 0:
		if (!fork()) {
			setsid();
			if (fork())
				_exit(0);
		}
		return;
	case 1: /* a sibling */
		syscall(SYS_clone, CLONE_PARENT | SIGCHLD, 0, 0, 0, 0);
		return;
	case 2:
		if (!fork()) {
			prctl(PR_SET_CHILD_SUBREAPER, 1);
			setpgid(0, 0);
			if (resists)
				signal(SIGCHLD, SIG_IGN);
		}
		return;
	default: /* goes on as its own child */
		if (fork() > 0)
			_exit(0);
	}
}

static void storm(int resists, long end)
{
	while (seconds() < end) {
		if (resists)
			resist();
		multiply(resists);
		srand((unsigned)getpid());
		while (waitpid(-1, 0, WNOHANG) > 0)
			;
		usleep((useconds_t)(rand() % 300));
	}
	_exit(0);
}

int main(int argc, char **argv)
{
	long end = seconds() + SECONDS;

	if (argc < 2)
		return 2;
	signal(SIGTERM, SIG_IGN);
	for (int i = 0; i < 8; i++)
		if (!fork())
			storm(argc > 2, end);
	usleep((useconds_t)atoi(argv[1]) * 1000);
	return 0;
}
