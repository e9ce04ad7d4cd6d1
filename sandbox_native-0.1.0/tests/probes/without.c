/* Stands in for the launcher on an older or stricter machine: makes one system call answer an errno and becomes the real
 * launcher. What it needs to know is compiled in, since a launcher is started without arguments and environment:
 * -DNUMBER=… -DERROR=… -DLAUNCHER="…", and where only some uses of the call are refused, those whose argument ARGUMENT has
 * VALUE in the bits of MASK. Without them it does nothing. */

#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef LAUNCHER
#define LAUNCHER "/bin/true"
#define NUMBER 0xffffff
#define ERROR ENOSYS
#endif
#ifndef ARGUMENT
#define ARGUMENT 0
#define MASK 0
#define VALUE 0
#endif

int main(int argc, char **argv)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, NUMBER, 0, 4),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[ARGUMENT])),
		BPF_STMT(BPF_ALU | BPF_AND | BPF_K, MASK),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, VALUE, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ERROR),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
	char *none[] = {NULL};
	(void)argc;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program))
		return 1;
	execve(LAUNCHER, argv, none);
	return 1;
}
