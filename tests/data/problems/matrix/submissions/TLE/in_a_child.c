/* Spends its time in a child, for which it does not wait. */
#include <unistd.h>

int main(void)
{
	if (fork() == 0)
		for (volatile unsigned n = 0;; n++)
			;
	sleep(1000);
	return 0;
}
