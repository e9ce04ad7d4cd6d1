/* A guest that prints what it is and has, one `name=value` a line: ids, session, umask, capabilities, securebits,
 * no_new_privs, seccomp, signals, limits, descriptors, network interfaces, names and the environment.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <net/if.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static void ids(void)
{
	uid_t ruid, euid, suid;
	gid_t rgid, egid, sgid;

	getresuid(&ruid, &euid, &suid);
	getresgid(&rgid, &egid, &sgid);
	printf("uids=%u %u %u\ngids=%u %u %u\ngroups=%d\n", ruid, euid, suid, rgid, egid, sgid, getgroups(0, NULL));
	printf("pid=%d\nppid=%d\nsid=%d\npgrp=%d\n", getpid(), getppid(), getsid(0), getpgrp());
}

static void privileges(void)
{
	mode_t mask = umask(022);

	umask(mask);
	printf("umask=%03o\ndumpable=%d\n", (unsigned)mask, prctl(PR_GET_DUMPABLE));
	printf("no_new_privs=%d\nsecurebits=%d\n", prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0), prctl(PR_GET_SECUREBITS));
}

/* Cap*, Sig*, Shd*, Seccomp and NoNewPrivs as /proc tells them. */
static void status(void)
{
	char line[256], *value;
	FILE *file = fopen("/proc/self/status", "re");

	if (file == NULL) {
		printf("status=%d\n", errno);
		return;
	}
	while (fgets(line, sizeof line, file) != NULL) {
		if (strncmp(line, "Cap", 3) && strncmp(line, "Sig", 3) && strncmp(line, "Shd", 3) && strncmp(line, "Seccomp:", 8))
			continue;
		value = strchr(line, ':');
		*value++ = 0;
		printf("%s=%s", line, value + strspn(value, " \t"));
	}
	fclose(file);
}

static void signals(void)
{
	struct sigaction action;
	sigset_t blocked;

	sigprocmask(SIG_BLOCK, NULL, &blocked);
	for (int n = 1; n < NSIG; n++) {
		if (sigaction(n, NULL, &action) == 0 && action.sa_handler != SIG_DFL)
			printf("handled=%d\n", n);
		if (sigismember(&blocked, n) == 1)
			printf("blocked=%d\n", n);
	}
}

static void limit(const char *name, int resource)
{
	struct rlimit value;

	if (getrlimit(resource, &value) == 0)
		printf("rlimit_%s=%lld %lld\n", name, (long long)value.rlim_cur, (long long)value.rlim_max);
}

static void limits(void)
{
	limit("as", RLIMIT_AS);
	limit("core", RLIMIT_CORE);
	limit("cpu", RLIMIT_CPU);
	limit("fsize", RLIMIT_FSIZE);
	limit("memlock", RLIMIT_MEMLOCK);
	limit("msgqueue", RLIMIT_MSGQUEUE);
	limit("nofile", RLIMIT_NOFILE);
	limit("nproc", RLIMIT_NPROC);
	limit("rtprio", RLIMIT_RTPRIO);
	limit("sigpending", RLIMIT_SIGPENDING);
	limit("stack", RLIMIT_STACK);
}

static void descriptors(void)
{
	char link[32], target[256];

	for (int fd = 0; fd < 4096; fd++) {
		if (fcntl(fd, F_GETFD) < 0)
			continue;
		snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
		ssize_t size = readlink(link, target, sizeof target - 1);
		target[size < 0 ? 0 : size] = 0;
		printf("fd=%d %s\n", fd, target);
	}
}

/* By index: a netlink socket, which would list them, is refused in a box. */
static void network(void)
{
	struct ifreq request = { 0 };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0) {
		printf("socket=%d\n", errno);
		return;
	}
	for (int index = 1; index < 256; index++) {
		request.ifr_ifindex = index;
		if (ioctl(fd, SIOCGIFNAME, &request) == 0)
			printf("interface=%s\n", request.ifr_name);
	}
	strcpy(request.ifr_name, "lo");
	if (ioctl(fd, SIOCGIFFLAGS, &request) == 0)
		printf("lo_up=%d\n", (request.ifr_flags & IFF_UP) != 0);
	close(fd);
}

static void names(char **environment)
{
	char text[4096];
	int tty;

	if (gethostname(text, sizeof text) == 0)
		printf("hostname=%s\n", text);
	if (getcwd(text, sizeof text) != NULL)
		printf("cwd=%s\n", text);
	tty = open("/dev/tty", O_RDWR | O_CLOEXEC);
	printf("tty=%d\n", tty < 0 ? errno : 0);
	for (char **one = environment; *one != NULL; one++)
		printf("env=%s\n", *one);
}

int main(int argc, char **argv, char **environment)
{
	printf("argc=%d\nargv0=%s\n", argc, argv[0]);
	signals(); /* first: nothing below may have changed one */
	descriptors();
	ids();
	privileges();
	status();
	limits();
	network();
	names(environment);
	return 0;
}
