/* Writes the answer, then does not end. */
#include <stdio.h>

int main(void)
{
	int a, b;
	if (scanf("%d %d", &a, &b) != 2)
		return 1;
	printf("%d\n", a + b);
	fflush(stdout);
	for (volatile unsigned n = 0;; n++)
		;
}
