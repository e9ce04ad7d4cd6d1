/* Raw system calls and descriptor ownership, for the launcher and the host's side; the launcher's few string helpers.
 *
 * Everything here is safe between clone and exec, also in a child that shares its parent's memory:
 * no allocation, no lock, no errno. A sys_* call returns the kernel's word: >= 0, or -errno.
 */
#pragma once

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "wire_checked.h"

static inline long sys_call6(long number, long a, long b, long c, long d, long e, long f)
{
#if defined(__x86_64__)
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;
	long result;
	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return result;
#elif defined(__aarch64__)
	register long x8 __asm__("x8") = number;
	register long x0 __asm__("x0") = a;
	register long x1 __asm__("x1") = b;
	register long x2 __asm__("x2") = c;
	register long x3 __asm__("x3") = d;
	register long x4 __asm__("x4") = e;
	register long x5 __asm__("x5") = f;
	__asm__ volatile("svc 0"
			 : "+r"(x0)
			 : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
			 : "memory");
	return x0;
#else
#error "sandbox_native knows x86_64 and aarch64"
#endif
}

/* A system call that makes a process on another stack: the new one, in which it answers 0, calls fn(argument) and must not return. */
static inline long sys_call_then(long number, long a, long b, long c, long d, long e, void (*fn)(void *), void *argument)
{
#if defined(__x86_64__)
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register void *r12 __asm__("r12") = argument;
	register void (*r13)(void *) __asm__("r13") = fn;
	long result;
	__asm__ volatile("syscall\n\t"
			 "test %%rax, %%rax\n\t"
			 "jnz 1f\n\t"
			 "xor %%ebp, %%ebp\n\t"
			 "mov %%r12, %%rdi\n\t"
			 "call *%%r13\n\t"
			 "ud2\n"
			 "1:"
			 : "=a"(result)
			 : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r12), "r"(r13)
			 : "rcx", "r11", "memory");
	return result;
#else
	register long x8 __asm__("x8") = number;
	register long x0 __asm__("x0") = a;
	register long x1 __asm__("x1") = b;
	register long x2 __asm__("x2") = c;
	register long x3 __asm__("x3") = d;
	register long x4 __asm__("x4") = e;
	register void *x19 __asm__("x19") = argument;
	register void (*x20)(void *) __asm__("x20") = fn;
	__asm__ volatile("svc 0\n\t"
			 "cbnz x0, 1f\n\t"
			 "mov x29, xzr\n\t"
			 "mov x0, x19\n\t"
			 "blr x20\n\t"
			 "brk 1\n"
			 "1:"
			 : "+r"(x0)
			 : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x19), "r"(x20)
			 : "memory");
	return x0;
#endif
}

#define SYS_ARGS(a, b, c, d, e, f, ...) (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f)
#define sys(number, ...) sys_call6((number), SYS_ARGS(__VA_ARGS__ __VA_OPT__(, ) 0, 0, 0, 0, 0, 0))

/* Newer than the C library's headers may be; the numbers are the same on every architecture. */
enum {
	NR_pidfd_send_signal = 424,
	NR_open_tree = 428,
	NR_move_mount = 429,
	NR_pidfd_open = 434,
	NR_clone3 = 435,
	NR_close_range = 436,
	NR_openat2 = 437,
	NR_mount_setattr = 442,
	NR_landlock_create_ruleset = 444,
	NR_landlock_add_rule = 445,
	NR_landlock_restrict_self = 446,
};

/* Of two who take one at the same time, one gets it. */
static inline int fd_move(int *fd)
{
	return __atomic_exchange_n(fd, -1, __ATOMIC_SEQ_CST);
}

/* A descriptor that closes itself at the end of its scope; moved or closed means -1. It is forgotten first: close gives the number free before
 * it returns, and a fork at that moment hands the child what we remember. */
static inline void fd_close(int *fd)
{
	int closing = fd_move(fd);
	if (closing >= 0)
		sys(SYS_close, closing);
}
#define owned_fd __attribute__((cleanup(fd_close))) int

/* An older kernel's answer, or that of a filter which answers calls that it does not know with EPERM (containers). */
static inline bool is_absent(long result)
{
	return result == -ENOSYS || result == -EPERM;
}

/* clone3, or clone where a filter or an old kernel refuses clone3: pid, 0 in the child, -errno.
 * The child has a copy of the stack; for one that shares memory there is sys_clone_call. */
static inline __attribute__((always_inline)) long sys_clone(uint64_t flags, int *pidfd, int exit_signal, int cgroup)
{
	struct clone_args args = {
		.flags = flags | (pidfd ? CLONE_PIDFD : 0) | (cgroup >= 0 ? CLONE_INTO_CGROUP : 0),
		.pidfd = (uint64_t)(uintptr_t)pidfd,
		.exit_signal = (uint64_t)exit_signal,
		.cgroup = cgroup >= 0 ? (uint64_t)cgroup : 0,
	};
	long pid = sys(NR_clone3, &args, sizeof args);
	if (is_absent(pid) && cgroup < 0)
		pid = sys(SYS_clone, (flags | (pidfd ? CLONE_PIDFD : 0) | (uint64_t)exit_signal), 0, pidfd);
	return pid;
}

/* clone3, or clone, of a child that shares the caller's memory and begins in fn(argument) on a stack of its own: pid or -errno. The kernel
 * sets *gone to 0, and wakes who waits on it, when the child executes a program or ends. fn does not return. */
static inline long sys_clone_call(uint64_t flags, int exit_signal, int cgroup, void *stack, size_t size, uint32_t *gone,
				  void (*fn)(void *), void *argument)
{
	struct clone_args args = {
		.flags = flags | CLONE_CHILD_CLEARTID | (cgroup >= 0 ? CLONE_INTO_CGROUP : 0),
		.child_tid = (uint64_t)(uintptr_t)gone,
		.exit_signal = (uint64_t)exit_signal,
		.stack = (uint64_t)(uintptr_t)stack,
		.stack_size = size,
		.cgroup = cgroup >= 0 ? (uint64_t)cgroup : 0,
	};
	long pid = sys_call_then(NR_clone3, (long)&args, sizeof args, 0, 0, 0, fn, argument);
	if (is_absent(pid) && cgroup < 0) {
		long top = (long)stack + (long)size;
#if defined(__x86_64__)
		long tid = (long)gone, tls = 0;
#else
		long tid = 0, tls = (long)gone; /* the last two arguments change places */
#endif
		pid = sys_call_then(SYS_clone, (long)(flags | CLONE_CHILD_CLEARTID | (uint64_t)exit_signal), top, 0, tid, tls, fn, argument);
	}
	return pid;
}

/* Appends to a NUL-terminated text in a buffer of `size` bytes; what does not fit is cut. */
static inline void text_add(char *text, size_t size, const char *more)
{
	size_t at = strnlen(text, size);
	while (at + 1 < size && *more)
		text[at++] = *more++;
	if (at < size)
		text[at] = 0;
}

static inline void text_add_number(char *text, size_t size, uint64_t number)
{
	char digits[21];
	size_t at = sizeof digits - 1;
	digits[at] = 0;
	do
		digits[--at] = (char)('0' + number % 10);
	while (number /= 10);
	text_add(text, size, digits + at);
}

/* The digits at `text`; *end is set behind them where it is asked for. */
static inline uint64_t text_number(const char *text, const char **end)
{
	uint64_t number = 0;
	while (*text == ' ')
		text++;
	while (*text >= '0' && *text <= '9')
		number = number * 10 + (uint64_t)(*text++ - '0');
	if (end)
		*end = text;
	return number;
}
