/* A child keeps its standard output open. */
#include <stdio.h>
#include <unistd.h>

int main(void)
{
	int a, b;
	if (scanf("%d %d", &a, &b) != 2)
		return 1;

	if (fork() == 0) {
		sleep(1000);
		_exit(0);
	}
	printf("%d\n", a + b);
	return 0;
}
