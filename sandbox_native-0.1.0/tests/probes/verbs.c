/* A guest of many verbs: `verbs VERB [ARGUMENT…] [, VERB …]` does them one after the other and then exits 0.
 *
 *   exit N | abort | signal N | stop | sleep MS | pause | ignore (signals that can be)
 *   sigsys | sigsys-forged (as if a filter had sent it)
 *   eat MB | shm MB (in /dev/shm) | file PATH MB (page cache) | reserve MB (address space only)
 *   spin MS (of CPU; 0: for ever) | spinners N | threads N
 *   fork N (children that wait) | bomb N (a tree of at most N) | zombies N
 *   daemon MS (double fork, setsid, holds nothing) | hold MS (the same, holding stdout and stderr)
 *   echo TEXT | write FD BYTES | flood FD | cat | read BYTES | close FD
 *   exec PATH [ARGUMENT…]
 *
 * A verb that measures something prints one line, `verb key=value …`. A failed step prints `verb errno=N` and exits 99.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void fail(const char *verb)
{
	dprintf(1, "%s errno=%d\n", verb, errno);
	_exit(99);
}

static long number(char **words, int count, int index)
{
	return index < count ? strtol(words[index], NULL, 0) : 0;
}

static void sleep_ms(long ms)
{
	struct timespec left = { ms / 1000, ms % 1000 * 1000000 };

	while (nanosleep(&left, &left) != 0 && errno == EINTR)
		;
}

static void spin_ms(long ms)
{
	struct timespec used;

	do {
		for (volatile int i = 0; i < 100000; i++)
			;
		clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
	} while (ms == 0 || used.tv_sec * 1000 + used.tv_nsec / 1000000 < ms);
}

/* ---- memory ---- */

static void touch(char *start, long bytes)
{
	for (long at = 0; at < bytes; at += 4096)
		start[at] = 1;
}

static void eat(long mb, int fd, int protection)
{
	long bytes = mb << 20;
	char *start = mmap(NULL, bytes, protection, fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE : MAP_SHARED, fd, 0);

	if (start == MAP_FAILED)
		fail("eat");
	if (protection & PROT_WRITE)
		touch(start, bytes);
	dprintf(1, "eat mb=%ld\n", mb);
}

static void eat_shm(long mb)
{
	int fd = open("/dev/shm/verbs", O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	if (fd < 0 || ftruncate(fd, mb << 20) != 0)
		fail("shm");
	eat(mb, fd, PROT_READ | PROT_WRITE);
}

static void write_file(const char *path, long mb)
{
	static char block[1 << 20];
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	if (fd < 0)
		fail("file");
	for (long i = 0; i < mb; i++)
		if (write(fd, block, sizeof block) != (ssize_t)sizeof block)
			fail("file");
	close(fd);
	dprintf(1, "file mb=%ld\n", mb);
}

/* ---- processes ---- */

static void fork_children(const char *verb, long wanted, int ends)
{
	long made = 0;
	int error = 0;

	for (; made < wanted; made++) {
		pid_t child = fork();
		if (child < 0) {
			error = errno;
			break;
		}
		if (child == 0 && ends)
			_exit(0);
		while (child == 0)
			pause();
	}
	dprintf(1, "%s made=%ld errno=%d\n", verb, made, error);
}

/* Every process forks until the shared budget is used up: wide and deep, and never more than `most`. */
static void bomb(long most)
{
	_Atomic long *budget = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (budget == MAP_FAILED)
		fail("bomb");
	*budget = most;
	while (atomic_fetch_sub(budget, 1) > 0)
		fork();
	pause();
}

static void detach(long ms, int holds)
{
	pid_t child = fork();

	if (child < 0)
		fail("daemon");
	if (child > 0) {
		waitpid(child, NULL, 0);
		return;
	}
	setsid();
	if (fork() != 0)
		_exit(0);
	if (!holds)
		for (int fd = 0; fd < 3; fd++)
			close(fd);
	sleep_ms(ms);
	_exit(0);
}

static void *thread_body(void *barrier)
{
	pthread_barrier_wait(barrier);
	return NULL;
}

static void start_threads(long wanted)
{
	static pthread_t threads[1024];
	static pthread_barrier_t barrier; /* never full: every thread that starts stays */
	pthread_attr_t small;
	long made = 0;
	int error = 0;

	pthread_barrier_init(&barrier, NULL, 100000);
	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, 65536);
	while (made < wanted && made < 1024 && error == 0) {
		error = pthread_create(&threads[made], &small, thread_body, &barrier);
		made += error == 0;
	}
	dprintf(1, "threads made=%ld errno=%d\n", made, error);
}

/* ---- signals ---- */

static void ignore_signals(void)
{
	for (int n = 1; n < NSIG; n++)
		signal(n, SIG_IGN);
}

static void forge_sigsys(void)
{
	siginfo_t forged = { .si_signo = SIGSYS, .si_code = 1 /* SYS_SECCOMP */ };

	syscall(SYS_rt_sigqueueinfo, getpid(), SIGSYS, &forged);
	kill(getpid(), SIGSYS);
}

/* ---- bytes ---- */

static void write_bytes(const char *verb, int fd, long bytes, int for_ever)
{
	static char block[65536];

	memset(block, 'x', sizeof block);
	while (for_ever || bytes > 0) {
		size_t size = for_ever || bytes > (long)sizeof block ? sizeof block : (size_t)bytes;
		ssize_t done = write(fd, block, size);
		if (done < 0)
			fail(verb);
		bytes -= done;
	}
}

static void copy(long bytes)
{
	static char block[65536];
	long total = 0;
	ssize_t got = 1;

	while (got > 0 && (bytes < 0 || total < bytes)) {
		size_t size = bytes >= 0 && bytes - total < (long)sizeof block ? (size_t)(bytes - total) : sizeof block;
		got = read(0, block, size);
		total += got > 0 ? got : 0;
		if (bytes < 0 && got > 0 && write(1, block, got) != got)
			fail("cat");
	}
	if (bytes >= 0)
		dprintf(1, "read bytes=%ld\n", total);
}

#define IS(name) (strcmp(w[0], name) == 0)

static void memory_verb(char **w, int n)
{
	if (IS("eat")) eat(number(w, n, 1), -1, PROT_READ | PROT_WRITE);
	if (IS("reserve")) eat(number(w, n, 1), -1, PROT_NONE);
	if (IS("shm")) eat_shm(number(w, n, 1));
	if (IS("file") && n > 1) write_file(w[1], number(w, n, 2));
}

static void process_verb(char **w, int n)
{
	if (IS("spin")) spin_ms(number(w, n, 1));
	for (long left = IS("spinners") ? number(w, n, 1) : 0; left > 0; left--)
		if (fork() == 0)
			spin_ms(0);
	if (IS("threads")) start_threads(number(w, n, 1));
	if (IS("fork")) fork_children("fork", number(w, n, 1), 0);
	if (IS("zombies")) fork_children("zombies", number(w, n, 1), 1);
	if (IS("bomb")) bomb(number(w, n, 1));
	if (IS("daemon")) detach(number(w, n, 1), 0);
	if (IS("hold")) detach(number(w, n, 1), 1);
}

static void end_verb(char **w, int n)
{
	if (IS("exit")) _exit((int)number(w, n, 1));
	if (IS("abort")) abort();
	if (IS("signal")) kill(getpid(), (int)number(w, n, 1));
	if (IS("stop")) raise(SIGSTOP);
	if (IS("sleep")) sleep_ms(number(w, n, 1));
	if (IS("pause")) pause();
	if (IS("ignore")) ignore_signals();
	if (IS("sigsys")) kill(getpid(), SIGSYS);
	if (IS("sigsys-forged")) forge_sigsys();
}

static void io_verb(char **w, int n)
{
	if (IS("echo") && n > 1) dprintf(1, "%s\n", w[1]);
	if (IS("write")) write_bytes("write", (int)number(w, n, 1), number(w, n, 2), 0);
	if (IS("flood")) write_bytes("flood", (int)number(w, n, 1), 0, 1);
	if (IS("cat")) copy(-1);
	if (IS("read")) copy(number(w, n, 1));
	if (IS("close")) close((int)number(w, n, 1));
}

static void exec_verb(char **w, int n)
{
	if (IS("exec") && n > 1) {
		w[n] = NULL;
		execv(w[1], w + 1);
		fail("exec");
	}
}

int main(int argc, char **argv)
{
	for (int at = 1, end; at < argc; at = end + 1) {
		for (end = at; end < argc && strcmp(argv[end], ",") != 0; end++)
			;
		if (end == at)
			continue;
		memory_verb(argv + at, end - at);
		process_verb(argv + at, end - at);
		end_verb(argv + at, end - at);
		io_verb(argv + at, end - at);
		exec_verb(argv + at, end - at);
	}
	return 0;
}
