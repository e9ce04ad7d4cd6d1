/* Before Linux 5.12 there is no mount_setattr: flags are set on a tree after it is attached, mount by mount, as mountinfo lists
 * them. Run by the template and by init, while nobody else is in the mount namespace. Owner maps cannot be had this way.
 *
 * In a user namespace the flags that a mount has already are locked: they are kept, since taking one away is refused.
 */

#include "launcher.h"

#include <sys/mount.h>
#include <sys/statfs.h>

enum { LINE_BYTES = 8192 };

struct lines {
	int fd;
	size_t have, used;
	char text[LINE_BYTES];
};

/* The next line without its end, NULL behind the last. One longer than the buffer cannot be a mount that we made. */
static char *next_line(struct lines *lines)
{
	for (;;) {
		char *start = lines->text + lines->used, *end = memchr(start, '\n', lines->have - lines->used);
		if (end) {
			*end = 0;
			lines->used = (size_t)(end - lines->text) + 1;
			return start;
		}
		if (!lines->used && lines->have == LINE_BYTES)
			lines->have = 0;
		memmove(lines->text, start, lines->have - lines->used);
		lines->have -= lines->used;
		lines->used = 0;
		long got = sys(SYS_read, lines->fd, lines->text + lines->have, LINE_BYTES - lines->have);
		if (got <= 0)
			return NULL;
		lines->have += (size_t)got;
	}
}

static unsigned digit(char c)
{
	return (unsigned)(c - '0');
}

/* Field 5 of a mountinfo line, its octal escapes undone in place. */
static char *mount_point(char *line)
{
	for (int field = 1; line && field < 5; field++)
		line = strchr(line, ' ') ? strchr(line, ' ') + 1 : NULL;
	if (!line)
		return NULL;
	char *to = line;
	for (const char *from = line; *from && *from != ' '; to++) {
		if (from[0] == '\\' && from[1] && from[2] && from[3]) {
			*to = (char)(digit(from[1]) << 6 | digit(from[2]) << 3 | digit(from[3]));
			from += 4;
		} else {
			*to = *from++;
		}
	}
	*to = 0;
	return line;
}

static unsigned long present(const char *path)
{
	struct statfs found;
	if (statfs(path, &found))
		return 0;
	unsigned long flags = (unsigned long)found.f_flags & (MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_NOATIME | MS_NODIRATIME);
	return flags | (found.f_flags & 4096 /* ST_RELATIME */ ? MS_RELATIME : 0);
}

static bool is_beneath(const char *path, const char *top)
{
	size_t length = strlen(top);
	return !strncmp(path, top, length) && (path[length] == 0 || path[length] == '/');
}

/* A host directory that init has attached: on an old kernel it came without its flags. */
int remount_safe(const char *path, struct sn_failure *why)
{
	unsigned long safe = MS_NOSUID | MS_NODEV, has = present(path);
	if ((has & safe) == safe)
		return 0;
	long result = sys(SYS_mount, NULL, path, NULL, MS_REMOUNT | MS_BIND | safe | has, NULL);
	return result < 0 ? fail(why, SN_STAGE_MOUNT, result, path) : 0;
}

/* `top`: where the tree was attached, as this process names it. */
int remount_tree(const char *mountinfo, const char *top, unsigned long flags, bool recursive, struct sn_failure *why)
{
	static struct lines lines;
	owned_fd fd = (int)sys(SYS_openat, AT_FDCWD, mountinfo, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return fail(why, SN_STAGE_MOUNT, fd, mountinfo);
	lines.fd = fd;
	lines.have = lines.used = 0;
	char *line;
	while ((line = next_line(&lines))) {
		const char *path = mount_point(line);
		if (!path || !is_beneath(path, top) || (!recursive && strcmp(path, top)))
			continue;
		long result = sys(SYS_mount, NULL, path, NULL, MS_REMOUNT | MS_BIND | flags | present(path), NULL);
		if (result < 0)
			return fail(why, SN_STAGE_MOUNT, result, path);
	}
	return 0;
}
