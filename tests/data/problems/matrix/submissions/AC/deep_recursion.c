/* Takes 24 MB of stack, which is within the memory limit. */
#include <stdio.h>

static int deep(int n)
{
	volatile char frame[1000];
	frame[0] = 0;
	return n ? deep(n - 1) + frame[0] : 0;
}

int main(void)
{
	int a, b;
	if (scanf("%d %d", &a, &b) != 2)
		return 1;
	a += deep(24000);
	printf("%d\n", a + b);
	return 0;
}
