/* A system call of another architecture: getpid of i386. */
#include <stdio.h>

int main(void)
{
	int number = 20;
	__asm__ volatile("int $0x80" : "+a"(number));
	puts("42");
	return 0;
}
