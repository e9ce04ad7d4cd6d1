/* Writes to standard error for ever. */
#include <unistd.h>

int main(void)
{
	for (;;)
		if (write(2, "no\n", 3) < 0)
			return 1;
}
