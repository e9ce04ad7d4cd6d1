/* Makes files until there can be no more. */
#include <unistd.h>
#include <fcntl.h>

int main(void)
{
	for (int number = 0;; number++) {
		char name[32];
		sprintf(name, "/tmp/%d", number);
		int fd = open(name, O_WRONLY | O_CREAT, 0600);
		if (fd < 0)
			return 1;
		close(fd);
	}
}
