/* Stops its parent. */
#include <stdio.h>
#include <unistd.h>
#include <signal.h>

int main(void)
{
	int a, b;
	if (scanf("%d %d", &a, &b) != 2)
		return 1;
	kill(getppid(), SIGSTOP);
	printf("%d\n", a + b);
	return 0;
}
