/* A little in each of many children. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(void)
{
	for (int child = 0; child < 24; child++)
		if (fork() == 0) {
			memset(malloc(8 << 20), 1, 8 << 20);
			pause();
		}
	pause();
	return 0;
}
