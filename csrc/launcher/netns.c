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

enum { TRACES = 7, FIRST_IPV6 = 4 }; /* from here on a kernel may lack them */
static const char *const traces[TRACES] = {
	"/proc/self/net/dev", "/proc/self/net/snmp", "/proc/self/net/netstat", "/proc/self/net/unix",
	"/proc/self/net/snmp6", "/proc/self/net/rt6_stats", "/proc/self/net/ip6_flowlabel",
};

/* Of the namespace that this slot has now: the files stay open, since to look one up costs as much as to read it. */
static struct {
	bool watched;
	int files[TRACES];
	uint64_t print;
} current;

/* FNV-1a over the files; one that cannot be read makes the print unlike any other. */
static uint64_t fingerprint(void)
{
	static uint64_t salt;
	uint64_t hash = UINT64_C(0xcbf29ce484222325);
	for (unsigned i = 0; i < TRACES; i++) {
		char text[8192];
		long got = current.files[i], at = 0;
		if (got == -ENOENT && i >= FIRST_IPV6)
			continue;
		while (got >= 0 && (got = sys(SYS_pread64, current.files[i], text, sizeof text, at)) > 0) {
			for (long byte = 0; byte < got; byte++)
				hash = (hash ^ (unsigned char)text[byte]) * UINT64_C(0x100000001b3);
			at += got;
		}
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

int netns_fresh(struct sn_failure *why)
{
	long result = sys(SYS_unshare, CLONE_NEWNET);
	if (result < 0)
		return fail(why, SN_STAGE_NETNS, result, "new network namespace");
	owned_fd fd = (int)sys(SYS_socket, AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return fail(why, SN_STAGE_NETNS, fd, "socket for lo");
	struct ifreq lo = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
	result = sys(SYS_ioctl, fd, SIOCSIFFLAGS, &lo);
	return result < 0 ? fail(why, SN_STAGE_NETNS, result, "lo") : 0;
}

int netns_watched(struct sn_failure *why)
{
	for (unsigned i = 0; current.watched && i < TRACES; i++)
		if (current.files[i] >= 0)
			sys(SYS_close, current.files[i]);
	current.watched = false;
	if (netns_fresh(why))
		return -1;
	if (!sends_nothing_late())
		return 0;
	for (unsigned i = 0; i < TRACES; i++)
		current.files[i] = (int)sys(SYS_openat, AT_FDCWD, traces[i], O_RDONLY | O_CLOEXEC);
	current.watched = true;
	current.print = fingerprint();
	return 0;
}

bool netns_unused(void)
{
	return current.watched && fingerprint() == current.print;
}
