/* A child writes for ever. */
#include <stdio.h>
#include <unistd.h>
#include <sys/wait.h>

int main(void)
{
	if (fork() == 0)
		for (;;)
			puts("42");
	wait(0);
	return 0;
}
