/* A guest whose calls are watched (Policy.explain): `asks VERB [ARGUMENT…] [, VERB …]`, one line for each verb, `verb errno=N`.
 *
 *   refused N (that many refused calls, by one thread) | kinds N (that many different ones) | threads N M (N threads, M calls each)
 *   children N M (the same with processes) | edge (a path whose end is not mapped) | unmapped | endless (a path without an end)
 *   racing PATH OTHER N (a thread changes the path while N calls are made) | relative DIR NAME | removed (from a directory that is gone)
 *   signals N (with a timer that has no SA_RESTART) | listener (a filter with a listener of its own) | foreign (another architecture's entry)
 *   until-enosys (refused calls until one is answered with ENOSYS: says so) | exec PATH | unix PATH | inet ADDRESS PORT | hidden (no longer
 *   dumpable, then one refused open)
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static void say(const char *verb, long result)
{
	dprintf(1, "%s errno=%d\n", verb, result < 0 ? errno : 0);
}

static long refused(long times)
{
	long result = 0;
	for (long i = 0; i < times; i++)
		result = socket(AF_NETLINK, SOCK_RAW, 0);
	return result;
}

static void *refused_thread(void *times)
{
	refused((long)times);
	return NULL;
}

static void threads(long count, long times)
{
	pthread_t all[64];
	for (long i = 0; i < count; i++)
		pthread_create(&all[i], NULL, refused_thread, (void *)times);
	for (long i = 0; i < count; i++)
		pthread_join(all[i], NULL);
	say("threads", 0);
}

static void children(long count, long times)
{
	for (long i = 0; i < count; i++)
		if (fork() == 0) {
			refused(times);
			_exit(0);
		}
	while (wait(NULL) > 0)
		;
	say("children", 0);
}

static char *pages(size_t count)
{
	return mmap(NULL, count * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static void edge(void)
{
	char *page = pages(2), path[] = "/etc/shadow";
	munmap(page + 4096, 4096);
	memcpy(page + 4096 - sizeof path, path, sizeof path);
	say("edge", open(page + 4096 - sizeof path, O_RDONLY));
	page[4095] = 'x'; /* its end is gone */
	say("edge-open", open(page + 4096 - sizeof path, O_RDONLY));
}

static void endless(void)
{
	char *page = pages(16);
	memset(page, 'a', 16 * 4096);
	page[0] = '/';
	say("endless", open(page, O_RDONLY));
}

static char shared[64];
static volatile int racing;

static void *flip(void *names)
{
	char **both = names;
	for (int i = 0; racing; i++)
		strcpy(shared, both[i % 2]);
	return NULL;
}

static void race(char **names, long times)
{
	pthread_t thread;
	racing = 1;
	strcpy(shared, names[0]);
	pthread_create(&thread, NULL, flip, names);
	int opened = 0;
	for (long i = 0; i < times; i++) {
		int fd = open(shared, O_RDONLY);
		opened += fd >= 0;
		if (fd >= 0)
			close(fd);
	}
	racing = 0;
	pthread_join(thread, NULL);
	dprintf(1, "racing opened=%d errno=0\n", opened);
}

static void relative(const char *directory, const char *name)
{
	int at = open(directory, O_PATH | O_DIRECTORY);
	say("relative", openat(at, name, O_RDONLY));
	say("relative-cwd", chdir(directory) ? -1 : open(name, O_RDONLY));
}

static void removed(void)
{
	mkdir("/tmp/gone", 0755);
	if (chdir("/tmp/gone") || rmdir("/tmp/gone"))
		say("removed", -1);
	say("removed", open("x", O_RDONLY));
}

static void nothing(int signal)
{
	(void)signal;
}

static void signals(long times)
{
	struct sigaction action = {.sa_handler = nothing};
	struct itimerval often = {{0, 300}, {0, 300}}, never = {{0, 0}, {0, 0}};
	long others = 0;
	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
	for (long i = 0; i < times; i++)
		others += socket(AF_NETLINK, SOCK_RAW, 0) >= 0 || errno != EAFNOSUPPORT;
	setitimer(ITIMER_REAL, &never, NULL);
	dprintf(1, "signals others=%ld errno=0\n", others);
}

static void listener(void)
{
	struct sock_filter allow = {.code = BPF_RET | BPF_K, .k = SECCOMP_RET_ALLOW};
	struct sock_fprog program = {.len = 1, .filter = &allow};
	say("listener", syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &program));
}

static void until_enosys(void)
{
	dprintf(1, "asking errno=0\n");
	while (socket(AF_NETLINK, SOCK_RAW, 0) >= 0 || errno != ENOSYS)
		usleep(1000);
	say("until-enosys", -1);
}

static void foreign(void)
{
#ifdef __x86_64__
	long result;
	__asm__ volatile("int $0x80" : "=a"(result) : "a"(20L) : "r8", "r9", "r10", "r11", "memory");
	dprintf(1, "foreign result=%ld errno=0\n", result);
#endif
}

static void connect_unix(const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	strncpy(address.sun_path, path, sizeof address.sun_path - 1);
	say("unix", connect(socket(AF_UNIX, SOCK_STREAM, 0), (struct sockaddr *)&address, sizeof address));
}

static void connect_inet(const char *host, long port)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
	inet_pton(AF_INET, host, &address.sin_addr);
	say("inet", connect(socket(AF_INET, SOCK_STREAM, 0), (struct sockaddr *)&address, sizeof address));
}

#define IS(name) (strcmp(w[0], name) == 0)
#define TEXT(index) ((index) < n ? w[index] : "")
#define NUMBER(index) ((index) < n ? strtol(w[index], NULL, 0) : 0)

static void verb(char **w, int n)
{
	if (IS("refused")) say("refused", refused(NUMBER(1)));
	if (IS("kinds")) for (long i = 0; i < NUMBER(1); i++) socket(AF_NETLINK, SOCK_RAW, (int)i);
	if (IS("threads")) threads(NUMBER(1), NUMBER(2));
	if (IS("children")) children(NUMBER(1), NUMBER(2));
	if (IS("edge")) edge();
	if (IS("unmapped")) say("unmapped", open((const char *)8, O_RDONLY));
	if (IS("endless")) endless();
	if (IS("racing")) race(w + 1, NUMBER(3));
	if (IS("relative")) relative(TEXT(1), TEXT(2));
	if (IS("removed")) removed();
	if (IS("signals")) signals(NUMBER(1));
	if (IS("listener")) listener();
	if (IS("foreign")) foreign();
	if (IS("until-enosys")) until_enosys();
	if (IS("exec")) say("exec", execl(TEXT(1), TEXT(1), NULL));
	if (IS("unix")) connect_unix(TEXT(1));
	if (IS("inet")) connect_inet(TEXT(1), NUMBER(2));
	if (IS("hidden")) say("hidden", prctl(PR_SET_DUMPABLE, 0) ? -1 : open("/etc/shadow", O_RDONLY));
}

int main(int argc, char **argv)
{
	for (int at = 1, end; at < argc; at = end + 1) {
		for (end = at; end < argc && strcmp(argv[end], ",") != 0; end++)
			;
		if (end > at)
			verb(argv + at, end - at);
	}
	return 0;
}
