/* A file in memory. */
#define _GNU_SOURCE
#include <string.h>
#include <unistd.h>
#include <sys/mman.h>

int main(void)
{
	static char block[1 << 20];
	int fd = memfd_create("m", 0);
	memset(block, 1, sizeof block);
	for (;;)
		if (write(fd, block, sizeof block) < 0)
			fd = memfd_create("m", 0);
}
