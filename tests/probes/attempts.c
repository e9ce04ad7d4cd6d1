/* A guest that tries what a box must refuse: `attempts VERB [ARGUMENT…] [, VERB …]`.
 *
 * Each attempt prints one line, `verb errno=N`, with 0 where it worked; raw calls print `verb result=N errno=N`.
 *
 *   syscall NR [ARGUMENT…] (a word that is no number is passed as a pointer to it) | int80 NR | x32 NR
 *   connect PATH | connect-abstract NAME | inet ADDRESS PORT | socket FAMILY
 *   tiocsti | tioclinux | tty | ptrace PID | kill PID SIGNAL | vmread PID | proc PID (every file below /proc/PID)
 *   ioctl PATH REQUEST WORD | fcntl PATH COMMAND ARGUMENT (on what is opened for reading; the request is pointed to the word)
 *   read PATH | write PATH | create PATH | mkdir PATH | mknod PATH | link FROM TO | chown PATH
 *   mount | unshare FLAGS | clone FLAGS | clone3 | setuid ID | chroot PATH | setns PATH | sethostname | keyctl | hog-fds
 *   landlock (how many domains it can still enter: the kernel permits 16)
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static void say(const char *verb, long result)
{
	int error = result < 0 ? errno : 0;

	dprintf(1, "%s errno=%d\n", verb, error);
}

static long word(char **w, int n, int index)
{
	char *end;
	long value;

	if (index >= n)
		return 0;
	value = strtol(w[index], &end, 0);
	return *end == 0 ? value : (long)w[index];
}

/* ---- raw calls ---- */

static void call(const char *verb, long nr, char **w, int n)
{
	long result = syscall(nr, word(w, n, 2), word(w, n, 3), word(w, n, 4), word(w, n, 5), word(w, n, 6), word(w, n, 7));
	int error = result < 0 ? errno : 0;

	dprintf(1, "%s result=%ld errno=%d\n", verb, result, error);
}

static void int80(long nr)
{
#ifdef __x86_64__
	long result;

	__asm__ volatile("int $0x80" : "=a"(result) : "a"(nr), "b"(0), "c"(0), "d"(0) : "r8", "r9", "r10", "r11", "memory");
	dprintf(1, "int80 result=%ld errno=0\n", result);
#else
	dprintf(1, "int80 result=-1 errno=%d\n", nr < 0 ? EINVAL : ENOSYS);
#endif
}

/* ---- sockets ---- */

static void connect_unix(const char *verb, const char *name, int abstract)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	strncpy(address.sun_path + abstract, name, sizeof address.sun_path - 2);
	say(verb, fd < 0 ? -1 : connect(fd, (struct sockaddr *)&address,
					offsetof(struct sockaddr_un, sun_path) + abstract + strlen(name) + !abstract));
	close(fd);
}

static void connect_inet(const char *host, long port)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	inet_pton(AF_INET, host, &address.sin_addr);
	say("inet", fd < 0 ? -1 : connect(fd, (struct sockaddr *)&address, sizeof address));
	close(fd);
}

/* ---- other processes ---- */

static void read_memory(pid_t pid)
{
	char byte;
	struct iovec here = { &byte, 1 }, there = { (void *)0x400000, 1 };

	say("vmread", process_vm_readv(pid, &here, 1, &there, 1, 0));
}

/* Which of a process's files can be read at all: `proc NAME errno=N bytes=N` for each. */
static void read_proc(const char *pid)
{
	char path[64], block[256];
	struct dirent *entry;
	DIR *folder;

	snprintf(path, sizeof path, "/proc/%s", pid);
	folder = opendir(path);
	if (folder == NULL) {
		say("proc", -1);
		return;
	}
	while ((entry = readdir(folder)) != NULL) {
		int fd = openat(dirfd(folder), entry->d_name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
		ssize_t got = fd < 0 ? -1 : read(fd, block, sizeof block);
		int error = got < 0 ? errno : 0;

		if (entry->d_name[0] != '.')
			dprintf(1, "proc %s errno=%d bytes=%zd\n", entry->d_name, error, got);
		if (fd >= 0)
			close(fd);
	}
	closedir(folder);
}

static void clone_flags(unsigned long flags)
{
	long child = syscall(SYS_clone, flags | SIGCHLD, 0, 0, 0, 0);

	if (child == 0)
		_exit(0);
	say("clone", child);
	if (child > 0)
		waitpid((pid_t)child, NULL, 0);
}

/* ---- files ---- */

static void open_file(const char *verb, const char *path, int flags)
{
	char byte = 'x';
	int fd = open(path, flags | O_CLOEXEC | O_NONBLOCK, 0644);

	if (fd >= 0)
		say(verb, flags & O_ACCMODE ? write(fd, &byte, 1) : read(fd, &byte, 1));
	else
		say(verb, -1);
	if (fd >= 0)
		close(fd);
}

static void hog_fds(void)
{
	int made = 0;

	while (dup(0) >= 0)
		made++;
	dprintf(1, "hog-fds made=%d errno=%d\n", made, errno);
}

/* Of rules that permit everything but to make a block device. */
static void enter_domains(void)
{
	uint64_t block = 1 << 11;
	int entered = 0, error = 0;

	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	while (!error && entered <= 16) {
		int fd = (int)syscall(444, &block, sizeof block, 0);

		if (fd < 0 || syscall(446, fd, 0))
			error = errno;
		else
			entered++;
		close(fd);
	}
	dprintf(1, "landlock entered=%d errno=%d\n", entered, error);
}

#define IS(name) (strcmp(w[0], name) == 0)
#define TEXT(index) ((index) < n ? w[index] : "")

static void kernel_verb(char **w, int n)
{
	char paste[2] = { 3, 0 };

	if (IS("syscall")) call("syscall", word(w, n, 1), w, n);
	if (IS("x32")) call("x32", 0x40000000L | word(w, n, 1), w, n);
	if (IS("int80")) int80(word(w, n, 1));
	if (IS("clone3")) say("clone3", syscall(SYS_clone3, NULL, 0));
	if (IS("clone")) clone_flags((unsigned long)word(w, n, 1));
	if (IS("unshare")) say("unshare", unshare((int)word(w, n, 1)));
	if (IS("setns")) say("setns", setns(open(TEXT(1), O_RDONLY | O_CLOEXEC), 0));
	if (IS("setuid")) say("setuid", setuid((uid_t)word(w, n, 1)));
	if (IS("chroot")) say("chroot", chroot(TEXT(1)));
	if (IS("mount")) say("mount", mount("none", "/tmp", "tmpfs", 0, ""));
	if (IS("sethostname")) say("sethostname", sethostname("attempt", 7));
	if (IS("keyctl")) say("keyctl", syscall(SYS_keyctl, 0, -3, 0, 0, 0));
	if (IS("tiocsti")) say("tiocsti", ioctl(0, TIOCSTI, "x"));
	if (IS("tioclinux")) say("tioclinux", ioctl(0, TIOCLINUX, paste));
	if (IS("tty")) say("tty", open("/dev/tty", O_RDWR | O_CLOEXEC));
}

/* On a file that may only be read. */
static void ask_file(char **w, int n)
{
	long words[32] = { word(w, n, 3) };
	int fd = open(TEXT(1), O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		say(w[0], fd);
	else if (IS("ioctl"))
		say("ioctl", ioctl(fd, (unsigned long)word(w, n, 2), words));
	else
		say("fcntl", fcntl(fd, (int)word(w, n, 2), word(w, n, 3)));
	close(fd);
}

static void peer_verb(char **w, int n)
{
	if (IS("connect")) connect_unix("connect", TEXT(1), 0);
	if (IS("connect-abstract")) connect_unix("connect-abstract", TEXT(1), 1);
	if (IS("inet")) connect_inet(TEXT(1), word(w, n, 2));
	if (IS("socket")) say("socket", socket((int)word(w, n, 1), SOCK_DGRAM | SOCK_CLOEXEC, 0));
	if (IS("ptrace")) say("ptrace", ptrace(PTRACE_ATTACH, (pid_t)word(w, n, 1), NULL, NULL));
	if (IS("kill")) say("kill", kill((pid_t)word(w, n, 1), (int)word(w, n, 2)));
	if (IS("vmread")) read_memory((pid_t)word(w, n, 1));
	if (IS("proc")) read_proc(TEXT(1));
}

static void file_verb(char **w, int n)
{
	if (IS("read")) open_file("read", TEXT(1), O_RDONLY);
	if (IS("ioctl") || IS("fcntl")) ask_file(w, n);
	if (IS("write")) open_file("write", TEXT(1), O_WRONLY);
	if (IS("create")) open_file("create", TEXT(1), O_WRONLY | O_CREAT | O_EXCL);
	if (IS("mkdir")) say("mkdir", mkdir(TEXT(1), 0755));
	if (IS("mknod")) say("mknod", mknod(TEXT(1), S_IFCHR | 0666, makedev(1, 3)));
	if (IS("link")) say("link", symlink(TEXT(1), TEXT(2)));
	if (IS("chown")) say("chown", chown(TEXT(1), 0, 0));
	if (IS("hog-fds")) hog_fds();
	if (IS("landlock")) enter_domains();
}

int main(int argc, char **argv)
{
	for (int at = 1, end; at < argc; at = end + 1) {
		for (end = at; end < argc && strcmp(argv[end], ",") != 0; end++)
			;
		if (end == at)
			continue;
		kernel_verb(argv + at, end - at);
		peer_verb(argv + at, end - at);
		file_verb(argv + at, end - at);
	}
	return 0;
}
