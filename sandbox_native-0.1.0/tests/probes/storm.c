/* Forks without end, in every way that leaves a parent, a session or a group behind: `storm MILLISECONDS [continue]`. The first process
 * exits after that time. With `continue` every process also continues all others and raises its own limit of processes again.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static void resist(void)
{
	struct rlimit tasks;

	getrlimit(RLIMIT_NPROC, &tasks);
	tasks.rlim_cur = tasks.rlim_max;
	setrlimit(RLIMIT_NPROC, &tasks);
	kill(-1, SIGCONT);
}

static void multiply(void)
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
		}
		return;
	default: /* goes on as its own child */
		if (fork() > 0)
			_exit(0);
	}
}

static void storm(int resists)
{
	for (;;) {
		if (resists)
			resist();
		multiply();
		srand((unsigned)getpid());
		while (waitpid(-1, 0, WNOHANG) > 0)
			;
		usleep((useconds_t)(rand() % 300));
	}
}

int main(int argc, char **argv)
{
	signal(SIGTERM, SIG_IGN);
	for (int i = 0; i < 8; i++)
		if (!fork())
			storm(argc > 2);
	usleep((useconds_t)atoi(argv[1]) * 1000);
	return 0;
}
