/* On the rung without namespaces the guest owns what its user owns, and Landlock knows no right to change modes and times. So the filter
 * refuses these calls, and init, which hears of them by the filter's listener, makes them in the guest's place: for files beneath the
 * directories that the guest may write, and no others.
 *
 * Nothing that the guest can still change decides. The file is opened once (O_PATH); where it lies is asked of that descriptor, and by
 * it the call is made. The guest cannot bring a file of somebody else's beneath its directories: Landlock refuses the link and
 * the move.
 */

#include "launcher.h"

#include <linux/audit.h>
#include <linux/openat2.h>
#include <linux/seccomp.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <time.h>

#if defined(__x86_64__)
#define OWN_ARCH AUDIT_ARCH_X86_64
#else
#define OWN_ARCH AUDIT_ARCH_AARCH64
#endif

enum { NR_fchmodat2 = 452, NO_SET_ID = 01777 };

struct change {
	int at; /* a descriptor of the guest's, or AT_FDCWD */
	uint64_t path; /* in its memory; 0: `at` itself */
	uint32_t flags; /* AT_* */
	bool of_mode, has_times;
	uint32_t mode;
	struct timespec times[2];
};

static long peek_times(int pid, uint64_t from, bool micro, struct change *change)
{
	if (!from)
		return 0;
	long got = peek(pid, from, change->times, sizeof change->times);
	if (got != (long)sizeof change->times)
		return -EFAULT;
	change->has_times = true;
	for (unsigned i = 0; micro && i < 2; i++) {
		if (change->times[i].tv_nsec < 0 || change->times[i].tv_nsec >= 1000000)
			return -EINVAL; /* it would become UTIME_NOW or UTIME_OMIT */
		change->times[i].tv_nsec *= 1000;
	}
	return 0;
}

#ifdef SYS_utime
static long peek_seconds(int pid, uint64_t from, struct change *change)
{
	long seconds[2];
	if (!from)
		return 0;
	if (peek(pid, from, seconds, sizeof seconds) != (long)sizeof seconds)
		return -EFAULT;
	change->has_times = true;
	for (unsigned i = 0; i < 2; i++)
		change->times[i] = (struct timespec){.tv_sec = seconds[i]};
	return 0;
}
#endif

/* What is asked for: 0, -ENOSYS for a call that is not one of these, or another -errno. */
static long decode(int pid, const struct seccomp_data *call, struct change *change)
{
	const uint64_t *a = (const uint64_t *)call->args;
	*change = (struct change){.at = AT_FDCWD, .path = a[0]};
	if (call->arch != OWN_ARCH)
		return -ENOSYS;
	switch (call->nr) {
#ifdef SYS_chmod
	case SYS_chmod:
		*change = (struct change){.at = AT_FDCWD, .path = a[0], .of_mode = true, .mode = (uint32_t)a[1]};
		return 0;
	case SYS_utime:
		return peek_seconds(pid, a[1], change);
	case SYS_utimes:
		return peek_times(pid, a[1], true, change);
	case SYS_futimesat:
		*change = (struct change){.at = (int)a[0], .path = a[1]};
		return peek_times(pid, a[2], true, change);
#endif
	case SYS_fchmod:
		*change = (struct change){.at = (int)a[0], .of_mode = true, .mode = (uint32_t)a[1]};
		return 0;
	case SYS_fchmodat:
	case NR_fchmodat2:
		*change = (struct change){.at = (int)a[0], .path = a[1], .of_mode = true, .mode = (uint32_t)a[2]};
		change->flags = call->nr == NR_fchmodat2 ? (uint32_t)a[3] : 0;
		return change->path ? 0 : -EFAULT;
	case SYS_utimensat:
		*change = (struct change){.at = (int)a[0], .path = a[1], .flags = (uint32_t)a[3]};
		return peek_times(pid, a[2], false, change);
	default:
		return -ENOSYS;
	}
}

/* What one of the guest's descriptors is of, or the directory that it is in. */
static long open_own(int pid, int fd, unsigned long flags)
{
	char link[64];
	if (fd < 0 && fd != AT_FDCWD)
		return -EBADF;
	process_path(pid, fd == AT_FDCWD ? "/cwd" : "/fd/", fd, link, sizeof link);
	long opened = sys(SYS_openat, AT_FDCWD, link, O_PATH | O_CLOEXEC | flags);
	return opened == -ENOENT ? -EBADF : opened;
}

/* The number in /proc/self/fd/N, which the C library uses where it has no call for a descriptor; -1: another path. */
static int of_descriptor(const char *path)
{
	static const char own[] = "/proc/self/fd/";
	const char *end = path + sizeof own - 1;
	if (strncmp(path, own, sizeof own - 1) || !*end)
		return -1;
	uint64_t number = text_number(end, &end);
	return *end || number > INT32_MAX ? -1 : (int)number;
}

static long open_file(int pid, const struct change *change)
{
	static char path[PATH_MOST];
	if (change->flags & ~(unsigned)(AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH))
		return -EINVAL;
	if (!change->path)
		return open_own(pid, change->at, 0);
	peek_text(pid, change->path, path, sizeof path);
	if (!*path)
		return change->flags & AT_EMPTY_PATH ? open_own(pid, change->at, 0) : -ENOENT;
	if (of_descriptor(path) >= 0)
		return open_own(pid, of_descriptor(path), 0);
	owned_fd from = *path == '/' ? -1 : (int)open_own(pid, change->at, O_DIRECTORY);
	if (*path != '/' && from < 0)
		return from;
	struct open_how how = {.flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_NO_MAGICLINKS};
	how.flags |= change->flags & AT_SYMLINK_NOFOLLOW ? O_NOFOLLOW : 0;
	return sys(NR_openat2, from, path, &how, sizeof how);
}

/* Where the kernel says that a descriptor's file lies. */
static bool place_of(int fd, char *into, size_t size)
{
	char link[64];
	process_path((int)sys(SYS_getpid), "/fd/", fd, link, sizeof link);
	long length = sys(SYS_readlinkat, AT_FDCWD, link, into, size - 1);
	into[length > 0 ? length : 0] = 0;
	return into[0] == '/';
}

static bool is_beneath(const char *directory, const char *path)
{
	size_t length = strlen(directory);
	return !strncmp(directory, path, length) && (path[length] == '/' || !path[length]);
}

static bool may_change(const struct owned *owned, int file)
{
	static char path[PATH_MOST], directory[PATH_MOST];
	const struct sn_plan *head = owned->plan->head;
	const struct sn_rule *rule = (const void *)(owned->plan->base + head->rules_at);
	if (!place_of(file, path, sizeof path))
		return false;
	for (uint32_t i = 0; i < head->rules_count; i++)
		if (rule[i].flags & SN_RULE_OWNED && is_beneath(plan_text(owned->plan, rule[i].path), path))
			return true;
	for (unsigned i = 0; i < 2; i++)
		if (owned->directory[i] >= 0 && place_of(owned->directory[i], directory, sizeof directory) && is_beneath(directory, path))
			return true;
	return false;
}

static long make_change(const struct owned *owned, const struct seccomp_notif *note, int listener, const struct change *change)
{
	char link[64];
	owned_fd file = (int)open_file((int)note->pid, change);
	if (file < 0)
		return file;
	if (!may_change(owned, file))
		return -EPERM;
	if (sys(SYS_ioctl, listener, SECCOMP_IOCTL_NOTIF_ID_VALID, &note->id) < 0)
		return -EINTR; /* its number was somebody else's by the time that we looked */
	process_path((int)sys(SYS_getpid), "/fd/", file, link, sizeof link);
	if (change->of_mode)
		return sys(SYS_fchmodat, AT_FDCWD, link, change->mode & NO_SET_ID);
	return sys(SYS_utimensat, AT_FDCWD, link, change->has_times ? change->times : NULL, 0);
}

bool owned_serve(const struct owned *owned, int listener, const struct seccomp_notif *note)
{
	struct change change;
	long result = decode((int)note->pid, &note->data, &change);
	if (result == -ENOSYS)
		return false;
	if (!result)
		result = make_change(owned, note, listener, &change);
	struct seccomp_notif_resp answer = {.id = note->id, .error = (int32_t)result};
	sys(SYS_ioctl, listener, SECCOMP_IOCTL_NOTIF_SEND, &answer);
	return true;
}
