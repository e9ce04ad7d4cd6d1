/* A guest that attacks protected paths: `tampers VERB [ARGUMENT…] [, VERB …]`. Each prints one line, `VERB FIRST-ARGUMENT errno=N`, with 0 where it
 * worked.
 *
 *   rename FROM TO | exchange A B | replace FROM TO (renameat2 without a flag) | unlink PATH | rmdir PATH | mkdir PATH
 *   write PATH | append PATH | truncate PATH | read PATH | list PATH | create PATH
 *   link FROM TO | symlink TEXT PATH | chmod PATH | utime PATH | setxattr PATH | mknod PATH
 *   tmpfile DIRECTORY NAME (an unnamed file, then linked) | through FD-PATH (writes by /proc/self/fd) | map PATH (shared, writable)
 *   namespaces (its own user and mount namespace, all capabilities in it; for the verbs after it)
 *   umount PATH | detach PATH | remount PATH (read-write) | bind FROM TO | pivot PATH | move FROM TO
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#define IS(name) (strcmp(w[0], name) == 0)

static long opened(const char *path, int flags, const char *text)
{
	int fd = open(path, flags | O_CLOEXEC, 0644);
	long result = fd < 0 ? -1 : text ? write(fd, text, strlen(text)) : 0;

	if (fd >= 0)
		close(fd);
	return result;
}

static long list(const char *path)
{
	DIR *directory = opendir(path);

	if (directory != NULL)
		closedir(directory);
	return directory == NULL ? -1 : 0;
}

static long reopen(const char *path)
{
	char name[64];
	int fd = open(path, O_PATH | O_CLOEXEC);

	snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
	return fd < 0 ? -1 : opened(name, O_WRONLY, "x");
}

static long map(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	return fd < 0 || mmap(NULL, 1, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED ? -1 : 0;
}

static long tmpfile_link(const char *directory, const char *name)
{
	char path[64];
	int fd = open(directory, O_TMPFILE | O_RDWR | O_CLOEXEC, 0644);

	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	return fd < 0 ? -1 : linkat(AT_FDCWD, path, AT_FDCWD, name, AT_SYMLINK_FOLLOW);
}

static long put(const char *path, const char *text)
{
	return opened(path, O_WRONLY, text);
}

static long namespaces(void)
{
	char map[64];
	int uid = getuid(), gid = getgid();

	if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0)
		return -1;
	snprintf(map, sizeof map, "0 %d 1", uid);
	if (put("/proc/self/setgroups", "deny") < 0 || put("/proc/self/uid_map", map) < 0)
		return -1;
	snprintf(map, sizeof map, "0 %d 1", gid);
	return put("/proc/self/gid_map", map);
}

static long file_verb(char **w)
{
	if (IS("write")) return opened(w[1], O_WRONLY, "x");
	if (IS("append")) return opened(w[1], O_WRONLY | O_APPEND, "x");
	if (IS("truncate")) return truncate(w[1], 0);
	if (IS("read")) return opened(w[1], O_RDONLY, NULL);
	if (IS("create")) return opened(w[1], O_WRONLY | O_CREAT | O_EXCL, "x");
	if (IS("list")) return list(w[1]);
	if (IS("chmod")) return chmod(w[1], 0777);
	if (IS("utime")) return utimensat(AT_FDCWD, w[1], NULL, 0);
	if (IS("setxattr")) return setxattr(w[1], "user.x", "x", 1, 0);
	if (IS("through")) return reopen(w[1]);
	if (IS("map")) return map(w[1]);
	return -2;
}

static long name_verb(char **w)
{
	if (IS("rename")) return rename(w[1], w[2]);
	if (IS("exchange")) return syscall(SYS_renameat2, AT_FDCWD, w[1], AT_FDCWD, w[2], 2);
	if (IS("replace")) return syscall(SYS_renameat2, AT_FDCWD, w[1], AT_FDCWD, w[2], 0);
	if (IS("unlink")) return unlink(w[1]);
	if (IS("rmdir")) return rmdir(w[1]);
	if (IS("mkdir")) return mkdir(w[1], 0755);
	if (IS("link")) return link(w[1], w[2]);
	if (IS("symlink")) return symlink(w[1], w[2]);
	if (IS("mknod")) return mknod(w[1], S_IFIFO | 0644, 0);
	if (IS("tmpfile")) return tmpfile_link(w[1], w[2]);
	return -2;
}

static long mount_verb(char **w)
{
	if (IS("namespaces")) return namespaces();
	if (IS("umount")) return umount2(w[1], 0);
	if (IS("detach")) return umount2(w[1], MNT_DETACH);
	if (IS("remount")) return mount(NULL, w[1], NULL, MS_REMOUNT | MS_BIND, NULL);
	if (IS("bind")) return mount(w[1], w[2], NULL, MS_BIND, NULL);
	if (IS("move")) return mount(w[1], w[2], NULL, MS_MOVE, NULL);
	if (IS("pivot")) return syscall(SYS_pivot_root, w[1], w[1]);
	return -2;
}

int main(int argc, char **argv)
{
	char *none[] = {"", "", ""};

	for (int at = 1, end; at < argc; at = end + 1) {
		for (end = at; end < argc && strcmp(argv[end], ",") != 0; end++)
			;
		if (end == at)
			continue;
		char *w[] = {argv[at], end > at + 1 ? argv[at + 1] : none[1], end > at + 2 ? argv[at + 2] : none[2]};
		long result = file_verb(w);
		if (result == -2)
			result = name_verb(w);
		if (result == -2)
			result = mount_verb(w);
		printf("%s %s errno=%d\n", w[0], w[1], result == -1 ? errno : 0);
		fflush(stdout);
	}
	return 0;
}
