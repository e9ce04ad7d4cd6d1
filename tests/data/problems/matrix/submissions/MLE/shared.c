/* Pages that are shared. */
#define _GNU_SOURCE
#include <string.h>
#include <sys/mman.h>

int main(void)
{
	for (;;) {
		char *block = mmap(0, 1 << 24, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
		if (block != MAP_FAILED)
			memset(block, 1, 1 << 24);
	}
}
