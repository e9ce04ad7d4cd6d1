/* What the kernel is about to answer to a call with a path that the filter lets through, as far as it can be told beforehand: the
 * supervisor keeps those that will be refused. It has the guest's uid and no capability, so a look says what the guest's own would;
 * it looks through the guest's root and opens nothing but for its name. A wrong guess costs a line of the report.
 */

#include "launcher.h"

#include <linux/magic.h>
#include <linux/openat2.h>
#include <linux/stat.h> /* statx, which a C library may lack */
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>

enum { NR_faccessat2 = 439, MOST_PARENTS = 48, MOST_LINKS = 8 };

/* A name in the guest's tree, `root` being its root: a descriptor for looking only, or -errno. */
static long look(int root, const char *path, bool follow)
{
	struct open_how how = {
		.flags = O_PATH | O_CLOEXEC | (follow ? 0 : O_NOFOLLOW),
		.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS,
	};
	while (*path == '/')
		path++;
	return sys(NR_openat2, root, *path ? path : ".", &how, sizeof how);
}

static bool exists(int root, const char *path)
{
	owned_fd fd = (int)look(root, path, false);
	return fd >= 0;
}

static long permitted(int fd, int mode)
{
	char link[32] = "/proc/self/fd/";
	long result = sys(NR_faccessat2, fd, "", mode, AT_EMPTY_PATH);
	if (result == -ENOSYS) { /* before Linux 5.8 */
		text_add_number(link, sizeof link, (uint64_t)fd);
		result = sys(SYS_faccessat, AT_FDCWD, link, mode);
	}
	return result == -EACCES || result == -EROFS ? result : 0;
}

static bool read_only(int fd)
{
	struct statfs fs;
	return !sys(SYS_fstatfs, fd, &fs) && fs.f_flags & ST_RDONLY;
}

/* A device or FIFO is written on a read-only mount too. */
static long writable(int fd)
{
	struct stat file;
	bool plain = !fstat(fd, &file) && (S_ISREG(file.st_mode) || S_ISDIR(file.st_mode));
	return plain && read_only(fd) ? -EROFS : permitted(fd, W_OK);
}

/* The name's directory; false for the root itself. */
static bool cut_last(char *path)
{
	size_t end = strlen(path);
	while (end && path[end - 1] == '/')
		end--;
	while (end && path[end - 1] != '/')
		end--;
	path[end] = 0;
	return end > 0;
}

/* What is missing beneath what is shown of the host is missing there too. Only where the box's own directories (tmpfs, all of them)
 * end before the path does can the host have more. */
static long missing(int root, const char *path, long error)
{
	static char parent[PATH_ROOM];
	struct statfs fs;
	memcpy(parent, path, sizeof parent);
	for (int i = 0; i < MOST_PARENTS && cut_last(parent); i++) {
		owned_fd fd = (int)look(root, parent, true);
		if (fd >= 0)
			return !sys(SYS_fstatfs, fd, &fs) && (uint32_t)fs.f_type == TMPFS_MAGIC ? error : 0;
	}
	return 0;
}

/* A name is to be made, replaced or removed there. */
static long in_parent(int root, const char *path)
{
	static char parent[PATH_ROOM];
	memcpy(parent, path, sizeof parent);
	if (!cut_last(parent))
		return 0;
	owned_fd fd = (int)look(root, parent, true);
	return fd >= 0 ? writable(fd) : fd == -ENOENT || fd == -ENOTDIR ? missing(root, parent, fd) : 0;
}

/* Of open(2). */
static long by_flags(int root, int fd, const char *path, uint64_t flags)
{
	if (flags & O_PATH)
		return 0;
	if ((flags & O_TMPFILE) == O_TMPFILE)
		return writable(fd);
	if (flags & O_CREAT && flags & O_EXCL)
		return in_parent(root, path);
	long result = (flags & O_ACCMODE) != O_RDONLY || flags & O_TRUNC ? writable(fd) : 0;
	return result || (flags & O_ACCMODE) == O_WRONLY ? result : permitted(fd, R_OK);
}

/* A socket of the host's does not answer through what is shown read-only. */
static long connectable(int fd)
{
	struct stat file;
	return !fstat(fd, &file) && S_ISSOCK(file.st_mode) && read_only(fd) ? -ECONNREFUSED : 0;
}

/* What something is mounted on stays where it is: what is protected or hidden, and what is kept since such lies beneath it. */
static long movable(int root, int fd, const char *path)
{
	struct statx found;
	long result = in_parent(root, path);
	if (result || sys(SYS_statx, fd, "", AT_EMPTY_PATH, 0, &found))
		return result;
	return found.stx_attributes & STATX_ATTR_MOUNT_ROOT ? -EBUSY : 0;
}

static long of_existing(int root, int fd, const char *path, enum need need, uint64_t next)
{
	switch (need) {
	case NEED_FLAGS:
		return by_flags(root, fd, path, next);
	case NEED_MODE:
		return next & W_OK ? writable(fd) : permitted(fd, (int)next & 7);
	case NEED_MADE:
	case NEED_WRITTEN:
		return writable(fd);
	case NEED_OWNED:
		return read_only(fd) ? -EROFS : 0;
	case NEED_RUN:
		return permitted(fd, X_OK);
	case NEED_GONE:
	case NEED_PLACED:
		return movable(root, fd, path);
	case NEED_SOCKET:
		return connectable(fd);
	default:
		return 0;
	}
}

/* The box has an address of its own only. */
static long foresee_address(const char *path)
{
	return strncmp(path, "127.", 4) && strncmp(path, "0.0.0.0:", 8) && strncmp(path, "[0000:", 6) ? -ENETUNREACH : 0;
}

/* Puts what a link says in the place of its name. false: it is none, or one into /proc, where a process finds itself. */
static bool follow_link(int root, char *path)
{
	static char text[PATH_MOST];
	owned_fd link = (int)look(root, path, false);
	long size = link < 0 ? link : sys(SYS_readlinkat, link, "", text, sizeof text - 1);
	if (size <= 0)
		return false;
	text[size] = 0;
	if (text[0] == '/' || !cut_last(path))
		path[0] = 0;
	text_add(path, PATH_ROOM, text);
	return strncmp(path, "/proc/", 6) != 0;
}

/* -errno, or 0 where it will work. `next` is the argument behind the path, which becomes what it leads to where a link at its end
 * leads to nothing. */
long foresee(int root, char *path, enum need need, uint64_t next)
{
	if (path[0] != '/')
		return need == NEED_SOCKET && path[0] ? foresee_address(path) : NOT_FORESEEN;
	bool makes = need == NEED_NEW || need == NEED_MADE || need == NEED_PLACED || (need == NEED_FLAGS && next & O_CREAT);
	bool name = need == NEED_NAME || need == NEED_GONE || need == NEED_PLACED || need == NEED_NEW ||
		    (need == NEED_FLAGS && next & O_NOFOLLOW);
	owned_fd fd = (int)look(root, path, !name);
	for (int i = 0; i < MOST_LINKS && fd == -ENOENT && !name && exists(root, path); i++) {
		if (!follow_link(root, path))
			return NOT_FORESEEN;
		fd = (int)look(root, path, true);
	}
	if (fd >= 0)
		return of_existing(root, fd, path, need, next);
	if (fd != -ENOENT && fd != -ENOTDIR)
		return fd == -EACCES ? fd : NOT_FORESEEN;
	long error = makes ? in_parent(root, path) : missing(root, path, fd);
	return error ? error : NOT_FORESEEN;
}
