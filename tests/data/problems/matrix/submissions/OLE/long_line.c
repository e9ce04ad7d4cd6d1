/* A line of 100 MB. */
#include <stdio.h>

int main(void)
{
	for (int n = 0; n < 100000000; n++)
		putchar('4');
	return 0;
}
