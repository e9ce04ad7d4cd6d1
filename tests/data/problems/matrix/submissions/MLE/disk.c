/* Fills the disk, which is memory. */
#include <unistd.h>
#include <fcntl.h>

int main(void)
{
	static char block[1 << 20];
	for (int number = 0;; number++) {
		char name[32];
		sprintf(name, "/tmp/%d", number);
		int fd = open(name, O_WRONLY | O_CREAT, 0600);
		if (fd < 0 || write(fd, block, sizeof block) != sizeof block)
			return 1;
		close(fd);
	}
}
