/* Spends its time in another session, whose father is gone. */
#include <unistd.h>

int main(void)
{
	if (fork() == 0) {
		setsid();
		if (fork() != 0)
			_exit(0);
		for (volatile unsigned n = 0;; n++)
			;
	}
	sleep(1000);
	return 0;
}
