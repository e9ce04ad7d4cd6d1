/* Does what the first word of its input says. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void hungry(void)
{
	for (;;) {
		char *block = malloc(1 << 20);
		if (block)
			memset(block, 1, 1 << 20);
	}
}

int main(void)
{
	char word[16];
	int a, b;
	if (scanf("%15s %d %d", word, &a, &b) != 3)
		return 1;
	if (!strcmp(word, "slow"))
		for (volatile unsigned n = 0;; n++)
			;
	if (!strcmp(word, "crashing"))
		*(volatile int *)0 = 1;
	if (!strcmp(word, "hungry"))
		hungry();
	printf("%d\n", strcmp(word, "wrong") ? a + b : a - b);
	return 0;
}
