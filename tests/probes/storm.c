/* Forks without end, in every way that leaves a parent, a session or a group behind: `storm MILLISECONDS`. The first process
 * exits after that time.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

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

static void storm(void)
{
	for (;;) {
		multiply();
		srand((unsigned)getpid());
		while (waitpid(-1, 0, WNOHANG) > 0)
			;
		usleep((useconds_t)(rand() % 300));
	}
}

int main(int argc, char **argv)
{
	if (argc < 2)
		return 2;
	signal(SIGTERM, SIG_IGN);
	for (int i = 0; i < 8; i++)
		if (!fork())
			storm();
	usleep((useconds_t)atoi(argv[1]) * 1000);
	return 0;
}
