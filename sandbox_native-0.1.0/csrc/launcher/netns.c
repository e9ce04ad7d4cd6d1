/* The network namespace of a slot's next box: lo is up and there is nothing else. Making one, and the kernel's work after it is gone,
 * cost more than the rest of a launch together (1.3 ms and 1 ms), so a slot makes it while it waits, and hands it on
 * as long as nobody has used it: every counter that the kernel keeps for it, its sockets, routes and flow labels must read as
 * they did when it was new. One packet on lo, one refused connect, one socket kept alive in another's queue: it is replaced.
 * The receipt says which of the two a run had.
 *
 * One thing comes too late to be seen: what a multicast membership sends, from a timer, when its process may be gone. So there
 * are none for IPv4, and IPv6 reports them at once, as MLDv1 does. Where /proc/sys cannot be written (containers) no
 * namespace is handed on.
 *
 * The box's user namespace is a child of the slot's, so the guest has no power over it whatever it does.
 */

#include "launcher.h"

#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

enum { FIRST_IPV6 = 4 }; /* from here on a kernel may lack them */
static const char *const traces[] = {
	"/proc/self/net/dev", "/proc/self/net/snmp", "/proc/self/net/netstat", "/proc/self/net/unix",
	"/proc/self/net/snmp6", "/proc/self/net/rt6_stats", "/proc/self/net/ip6_flowlabel",
};

/* FNV-1a over the files; one that cannot be read makes the print unlike any other. */
static uint64_t fingerprint(void)
{
	static uint64_t salt;
	uint64_t hash = UINT64_C(0xcbf29ce484222325);
	for (unsigned i = 0; i < sizeof traces / sizeof *traces; i++) {
		char text[4096];
		owned_fd fd = (int)sys(SYS_openat, AT_FDCWD, traces[i], O_RDONLY | O_CLOEXEC);
		if (fd == -ENOENT && i >= FIRST_IPV6)
			continue;
		long got = fd < 0 ? fd : 1;
		while (got > 0 && (got = sys(SYS_read, fd, text, sizeof text)) > 0)
			for (long at = 0; at < got; at++)
				hash = (hash ^ (unsigned char)text[at]) * UINT64_C(0x100000001b3);
		if (got < 0)
			hash ^= ++salt;
	}
	return hash;
}

/* Whether nothing can be sent behind our back. A kernel without multicast or without IPv6 has no such file. */
static bool sends_nothing_late(void)
{
	static const char *const settings[][2] = {
		{"/proc/sys/net/ipv4/igmp_max_memberships", "0"},
		{"/proc/sys/net/ipv6/conf/all/force_mld_version", "1"},
	};
	for (unsigned i = 0; i < sizeof settings / sizeof *settings; i++) {
		owned_fd fd = (int)sys(SYS_openat, AT_FDCWD, settings[i][0], O_WRONLY | O_CLOEXEC);
		if (fd == -ENOENT)
			continue;
		if (fd < 0 || sys(SYS_write, fd, settings[i][1], 1) != 1)
			return false;
	}
	return true;
}

static bool quiet; /* the namespace that this slot has now */

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
	quiet = sends_nothing_late();
	*print = fingerprint();
	return 0;
}

bool netns_unused(uint64_t print)
{
	return quiet && fingerprint() == print;
}
