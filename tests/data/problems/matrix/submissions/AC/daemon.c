/* Leaves a daemon in a session of its own. */
#include <stdio.h>
#include <unistd.h>
#include <sys/wait.h>

int main(void)
{
	int a, b;
	if (scanf("%d %d", &a, &b) != 2)
		return 1;

	if (fork() == 0) {
		setsid();
		close(0);
		close(1);
		close(2);
		if (fork() == 0)
			sleep(1000);
		_exit(0);
	}
	wait(0);
	printf("%d\n", a + b);
	return 0;
}
