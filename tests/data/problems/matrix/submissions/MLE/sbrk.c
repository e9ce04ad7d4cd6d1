/* The heap, by hand. */
#define _GNU_SOURCE
#include <string.h>
#include <unistd.h>

int main(void)
{
	for (;;) {
		char *block = sbrk(1 << 20);
		if (block != (char *)-1)
			memset(block, 1, 1 << 20);
	}
}
