/* The network namespace of a slot's next box: lo is up and there is nothing else. Making one, and the kernel's work after it is gone,
 * cost more than the rest of a launch together (1.3 ms and 1 ms), so a slot makes it while it waits, and hands it on
 * as long as nobody has used it: every counter that the kernel keeps for it, and its list of sockets, must read as they did
 * when it was new. One packet on lo, one refused connect, one socket kept alive in another's queue: it is replaced.
 * The receipt says which of the two a run had.
 *
 * The box's user namespace is a child of the slot's, so the guest has no power over it whatever it does.
 */

#include "launcher.h"

#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

static const char *const traces[] = {
	"/proc/self/net/dev", "/proc/self/net/snmp", "/proc/self/net/snmp6", "/proc/self/net/netstat", "/proc/self/net/unix",
};

/* FNV-1a over the files; one that cannot be read makes the print unlike any other. */
static uint64_t fingerprint(void)
{
	static uint64_t salt;
	uint64_t hash = UINT64_C(0xcbf29ce484222325);
	for (unsigned i = 0; i < sizeof traces / sizeof *traces; i++) {
		char text[4096];
		owned_fd fd = (int)sys(SYS_openat, AT_FDCWD, traces[i], O_RDONLY | O_CLOEXEC);
		if (fd == -ENOENT && i == 2)
			continue; /* a kernel without IPv6 */
		long got = fd < 0 ? fd : 1;
		while (got > 0 && (got = sys(SYS_read, fd, text, sizeof text)) > 0)
			for (long at = 0; at < got; at++)
				hash = (hash ^ (unsigned char)text[at]) * UINT64_C(0x100000001b3);
		if (got < 0)
			hash ^= ++salt;
	}
	return hash;
}

int netns_fresh(uint64_t *print, struct sn_failure *why)
{
	long result = sys(SYS_unshare, CLONE_NEWNET);
	if (result < 0)
		return fail(why, SN_STAGE_NETNS, result, "new network namespace");
	owned_fd fd = (int)sys(SYS_socket, AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return fail(why, SN_STAGE_NETNS, fd, "socket for lo");
	struct ifreq lo = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
	result = sys(SYS_ioctl, fd, SIOCSIFFLAGS, &lo);
	if (result < 0)
		return fail(why, SN_STAGE_NETNS, result, "lo");
	fd_close(&fd);
	*print = fingerprint();
	return 0;
}

bool netns_unused(uint64_t print)
{
	return fingerprint() == print;
}
