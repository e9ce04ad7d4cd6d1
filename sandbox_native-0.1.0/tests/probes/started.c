/* Stands in for the launcher in tests of how the launcher is started: tells on descriptor 3 what it began with, one `name=value` a
 * line, and ends when descriptor 3 does.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static int is_null(int fd)
{
	struct stat here, null;
	return !fstat(fd, &here) && !stat("/dev/null", &null) && here.st_rdev == null.st_rdev;
}

static void list_fds(FILE *out)
{
	DIR *open = opendir("/proc/self/fd");
	fputs("fds=", out);
	for (struct dirent *entry; (entry = readdir(open));)
		if (entry->d_name[0] != '.' && atoi(entry->d_name) != dirfd(open))
			fprintf(out, "%s ", entry->d_name);
	fputs("\n", out);
	closedir(open);
}

static void list_signals(FILE *out)
{
	sigset_t blocked, pending;
	struct sigaction action;
	sigprocmask(SIG_BLOCK, NULL, &blocked);
	sigpending(&pending);
	fputs("signals=", out);
	for (int signal = 1; signal <= SIGRTMAX; signal++)
		if (sigismember(&blocked, signal) == 1 || sigismember(&pending, signal) == 1 ||
		    (!sigaction(signal, NULL, &action) && action.sa_handler != SIG_DFL))
			fprintf(out, "%d ", signal);
	fputs("\n", out);
}

int main(int argc, char **argv, char **env)
{
	char *text, byte;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	list_fds(out);
	list_signals(out);
	fprintf(out, "null=%d%d%d\n", is_null(0), is_null(1), is_null(2));
	fprintf(out, "leader=%d\n", getsid(0) == getpid());
	fprintf(out, "argc=%d\nargv0=%s\nenv=%d\n", argc, argv[0], env[0] != NULL);
	fclose(out);
	if (send(3, text, size, MSG_NOSIGNAL) < 0)
		return 1;
	while (recv(3, &byte, 1, 0) > 0)
		;
	return 0;
}
