/* Traces its parent; says the answer if it can. */
#include <stdio.h>
#include <unistd.h>
#include <sys/ptrace.h>

int main(void)
{
	if (ptrace(PTRACE_ATTACH, getppid(), 0, 0) == 0)
		puts("42");
	return 0;
}
