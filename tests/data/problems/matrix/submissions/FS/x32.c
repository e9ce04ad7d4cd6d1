/* A system call of the x32 architecture: getpid. */
#include <stdio.h>
#include <unistd.h>

int main(void)
{
	syscall(0x40000000 | 39);
	puts("42");
	return 0;
}
