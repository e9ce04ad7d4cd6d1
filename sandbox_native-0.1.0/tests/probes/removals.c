/* A guest that makes, changes, removes and moves files: `removals VERB [PATH…] [, VERB …]`, one line for each, `verb errno=N` with 0
 * where it worked.
 *
 *   make PATH | dir PATH | fifo PATH | symlink TEXT PATH | socket PATH | append PATH | truncate PATH | open-truncate PATH | punch PATH
 *   unlink PATH | unlinkat PATH | rmdir PATH | rmdirat PATH
 *   rename FROM TO | renameat FROM TO | exchange ONE OTHER | noreplace FROM TO | whiteout FROM TO
 *   link FROM TO | tmpfile DIRECTORY TO (an unnamed file made in DIRECTORY, then linked)
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

enum { NOREPLACE = 1, EXCHANGE = 2, WHITEOUT = 4 };

static void say(const char *verb, long result)
{
	dprintf(1, "%s errno=%d\n", verb, result < 0 ? errno : 0);
}

static long write_to(const char *path, int flags)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC | flags, 0644);
	long result = fd < 0 ? -1 : write(fd, "x", 1);

	close(fd);
	return result;
}

static long punch(const char *path)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	return fd < 0 ? -1 : fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 1);
}

static long bind_socket(const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	strncpy(address.sun_path, path, sizeof address.sun_path - 1);
	return bind(fd, (struct sockaddr *)&address, sizeof address);
}

static long link_unnamed(const char *directory, const char *to)
{
	char name[32];
	int fd = open(directory, O_TMPFILE | O_RDWR | O_CLOEXEC, 0644);

	if (fd < 0)
		return -1;
	snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
	return linkat(AT_FDCWD, name, AT_FDCWD, to, AT_SYMLINK_FOLLOW);
}

#define IS(name) (strcmp(w[0], name) == 0)
#define DO(name, call) \
	if (IS(name)) \
	say(name, call)

static void makes(char **w)
{
	DO("make", write_to(w[1], O_CREAT | O_EXCL));
	DO("dir", mkdir(w[1], 0755));
	DO("fifo", mkfifo(w[1], 0644));
	DO("symlink", symlink(w[1], w[2]));
	DO("socket", bind_socket(w[1]));
	DO("append", write_to(w[1], O_APPEND));
	DO("truncate", truncate(w[1], 0));
	DO("open-truncate", write_to(w[1], O_TRUNC));
	DO("punch", punch(w[1]));
}

static void removes(char **w)
{
	DO("unlink", syscall(SYS_unlinkat, AT_FDCWD, w[1], 0));
	DO("unlinkat", unlinkat(open(".", O_RDONLY | O_DIRECTORY), w[1], 0));
	DO("rmdir", rmdir(w[1]));
	DO("rmdirat", unlinkat(AT_FDCWD, w[1], AT_REMOVEDIR));
	DO("rename", rename(w[1], w[2]));
	DO("renameat", renameat(AT_FDCWD, w[1], AT_FDCWD, w[2]));
	DO("exchange", syscall(SYS_renameat2, AT_FDCWD, w[1], AT_FDCWD, w[2], EXCHANGE));
	DO("noreplace", syscall(SYS_renameat2, AT_FDCWD, w[1], AT_FDCWD, w[2], NOREPLACE));
	DO("whiteout", syscall(SYS_renameat2, AT_FDCWD, w[1], AT_FDCWD, w[2], WHITEOUT));
	DO("link", link(w[1], w[2]));
	DO("tmpfile", link_unnamed(w[1], w[2]));
}

int main(int argc, char **argv)
{
	static char nothing[1];

	for (int at = 1, end; at < argc; at = end + 1) {
		char *words[3] = { nothing, nothing, nothing };
		for (end = at; end < argc && strcmp(argv[end], ",") != 0; end++)
			if (end - at < 3)
				words[end - at] = argv[end];
		makes(words);
		removes(words);
	}
	return 0;
}
