/* Writes something wrong, then does not end. */
#include <stdio.h>

int main(void)
{
	puts("41");
	fflush(stdout);
	for (volatile unsigned n = 0;; n++)
		;
}
