/* What a call that the supervisor is asked about says: its paths, read from the memory of a process that may change them while we
 * read. Nothing is decided by them: they are for the report.
 */

#include "launcher.h"

#include <linux/seccomp.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>

enum { PIECE = 256 };

/* Bytes of another process, or -errno; fewer where what follows is not mapped. */
long peek(int pid, uint64_t from, void *into, size_t size)
{
	struct iovec here = {.iov_base = into, .iov_len = size}, there = {.iov_base = (void *)(uintptr_t)from, .iov_len = size};
	return sys(SYS_process_vm_readv, pid, &here, 1, &there, 1, 0);
}

/* A text up to its NUL, though what follows it need not be mapped. Cut at `size`; "" where it cannot be read. */
void peek_text(int pid, uint64_t from, char *into, size_t size)
{
	size_t at = 0;
	into[0] = 0;
	while (from && at + 1 < size) {
		size_t room = size - 1 - at;
		long got = peek(pid, from + at, into + at, room < PIECE ? room : PIECE);
		if (got <= 0) {
			into[0] = 0;
			return;
		}
		into[at + (size_t)got] = 0;
		if (strnlen(into + at, (size_t)got) < (size_t)got)
			return;
		at += (size_t)got;
	}
}

void process_path(int pid, const char *what, long number, char *into, size_t size)
{
	into[0] = 0;
	text_add(into, size, "/proc/");
	text_add_number(into, size, (uint64_t)pid);
	text_add(into, size, what);
	if (number >= 0)
		text_add_number(into, size, (uint64_t)number);
}

/* The directory that a relative path starts from, as the guest sees it; "" where that is none. */
static void directory(int pid, int at, char *into, size_t size)
{
	char link[64];
	into[0] = 0;
	if (at != AT_FDCWD && at < 0)
		return;
	process_path(pid, at == AT_FDCWD ? "/cwd" : "/fd/", at, link, sizeof link);
	long length = sys(SYS_readlinkat, AT_FDCWD, link, into, size - 1);
	into[length > 0 && into[0] == '/' ? length : 0] = 0;
}

/* Puts the directory in front of a relative path. */
static void make_absolute(int pid, int at, char *path)
{
	static char whole[PATH_ROOM];
	if (!path[0] || path[0] == '/')
		return;
	directory(pid, at, whole, sizeof whole);
	if (whole[0] && whole[1])
		text_add(whole, sizeof whole, "/");
	if (whole[0])
		text_add(whole, sizeof whole, path);
	memcpy(path, whole, sizeof whole);
}

static void add_internet(char *path, const unsigned char *bytes, size_t count, in_port_t port)
{
	static const char digits[] = "0123456789abcdef";
	text_add(path, PATH_ROOM, count == 4 ? "" : "[");
	for (size_t i = 0; i < count; i++) {
		const char hex[] = {digits[bytes[i] >> 4], digits[bytes[i] & 15], 0};
		if (i && (count == 4 || i % 2 == 0))
			text_add(path, PATH_ROOM, count == 4 ? "." : ":");
		if (count == 4)
			text_add_number(path, PATH_ROOM, bytes[i]);
		else
			text_add(path, PATH_ROOM, hex);
	}
	text_add(path, PATH_ROOM, count == 4 ? ":" : "]:");
	text_add_number(path, PATH_ROOM, ntohs(port));
}

/* A socket's address: a path, or host and port; "" for another's. */
static void read_address(int pid, const struct seccomp_data *call, char *path)
{
	union {
		struct sockaddr any;
		struct sockaddr_un local;
		struct sockaddr_in four;
		struct sockaddr_in6 six;
		char end[sizeof(struct sockaddr_un) + 1];
	} address = {.end = {0}};
	size_t size = (uint32_t)call->args[2];
	path[0] = 0;
	if (size > sizeof address.local || peek(pid, call->args[1], &address, size) != (long)size)
		return;
	if (address.any.sa_family == AF_UNIX)
		text_add(path, PATH_ROOM, address.local.sun_path); /* an abstract one is the box's own */
	else if (address.any.sa_family == AF_INET)
		add_internet(path, (const void *)&address.four.sin_addr, 4, address.four.sin_port);
	else if (address.any.sa_family == AF_INET6)
		add_internet(path, (const void *)&address.six.sin6_addr, 16, address.six.sin6_port);
	if (address.any.sa_family == AF_UNIX)
		make_absolute(pid, AT_FDCWD, path);
}

/* The paths of a call, absolute as the guest sees them; "" where there is none or it cannot be read. `word`: a text that is no path. */
void read_arguments(int pid, const struct seccomp_data *call, const struct shape *shape, char paths[2][PATH_ROOM], char *word,
		    size_t word_size)
{
	for (int i = 0; i < 2; i++) {
		const struct path_place *place = &shape->path[i];
		paths[i][0] = 0;
		if (place->text < 0)
			continue;
		if (shape->address) {
			read_address(pid, call, paths[i]);
			continue;
		}
		peek_text(pid, call->args[place->text], paths[i], PATH_MOST);
		if (place->at != AS_IT_IS)
			make_absolute(pid, place->at < 0 ? AT_FDCWD : (int)call->args[place->at], paths[i]);
	}
	word[0] = 0;
	if (shape->word >= 0)
		peek_text(pid, call->args[shape->word], word, word_size);
}
