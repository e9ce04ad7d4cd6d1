/* The map of the host's side: what the files here lend to one another. decl.h is what Python sees.
 *
 * All of this runs in the host process, on a thread of its own choosing and with the GIL released. The host is
 * somebody else's program: it may have any number of threads, any signal handlers, any descriptors
 * closed, and it may fork. So nothing here has global state, raises SIGPIPE, waits for "any child", or
 * makes a descriptor that is not close-on-exec from birth.
 */
#pragma once

#include "../common/sys.h"

#include "../decl.h"

#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>

/* ---- message.c ---- */

enum { MESSAGE_MAX_FDS = SN_MAX_GAUGES + 1 };

/* Fills the record and returns -error. */
int failed(struct sn_failure *why, uint32_t stage, int error, const char *item);

/* 0, or -errno. Waits at most timeout_ms for room. */
int message_send(int socket, const struct iovec *parts, size_t count, const int *fds, unsigned fd_count, int timeout_ms);

/* Does not wait: bytes, 0 at the end, -EAGAIN when nothing is there, or -errno. *fd is the first descriptor that came
 * along, -1 without one; more than one is against the contract and closed. */
ssize_t message_receive(int socket, void *data, size_t size, int *fd);

/* ---- spawn.c ---- */

int pidfd_kill(int pidfd);
bool pidfd_wait(int pidfd, int timeout_ms);

/* ---- box.c: bits of sn_box.kill, which any thread may set ---- */

enum kill_bit {
	KILL_WANTED = 1,   /* by the caller; init's pidfd may be yet to come */
	KILL_DEADLINE = 2, /* by the pump: init did not keep its own deadline */
	KILL_SENT = 4,
};

void box_kill(struct sn_box *box, uint32_t reason);

/* ---- box.c: bits of sn_box.flags above those of enum sn_box_flag ---- */

enum box_bit {
	BOX_SOURCE_FILE = 1 << 16,    /* stdin_source cannot be polled: it is always ready */
	BOX_SOURCE_WATCHED = 1 << 17, /* stdin_source is in the epoll set */
	BOX_SOURCE_ENDED = 1 << 18,
	BOX_STDIN_WATCHED = 1 << 19,  /* stdin_fd is in the epoll set */
	BOX_STDIN_FAILED = 1 << 21,   /* stdin_source cannot be read */
	BOX_CHANNEL_LOST = 1 << 20,   /* it ended without a report: init's end is awaited */
};

enum watch_tag { TAG_CHANNEL, TAG_PIDFD, TAG_STDIN, TAG_SOURCE, TAG_OUT, TAG_ERR };

int box_watch(struct sn_box *box, int fd, uint32_t events, enum watch_tag tag);
/* Leaves the epoll set by name: a forked child of the host may hold a copy, and then closing alone would not do it. */
void box_unwatch(struct sn_box *box, int fd);

/* ---- stdio.c ---- */

struct guest_fds { /* what goes with the request; standard output and error may be one */
	int channel, in, out, err, body;
};

/* 0, or -errno with the failure filled in. What is in `guest` then stays the caller's to close. */
int stdio_open(struct sn_box *box, struct guest_fds *guest, struct sn_failure *why);

/* ---- stdin.c ---- */

enum { RELAY_BYTES = 65536 };

/* 0, or -errno when the caller's source cannot be read. `readable`: it was said to be. */
int stdin_feed(struct sn_box *box, bool readable);
void stdin_close(struct sn_box *box);

/* ---- streams.c ---- */

enum stream_bit { STREAM_WATCHED = 1 << 16 };

/* Reads what is there, in a bounded number of steps (`all`: until the pipe is empty). 1: something came, 0: nothing, or -errno. */
int stream_read(struct sn_box *box, struct sn_stream *stream, bool all);
/* When all who could write are dead: empties the pipe without waiting for its end (somebody else may hold it open) and
 * closes it, unless the rest must wait for a reader. As stream_read. */
int stream_finish(struct sn_box *box, struct sn_stream *stream);
/* Puts a stream that waited for its reader back into the epoll set when there is room again, or no reader any more. */
int stream_rearm(struct sn_box *box, struct sn_stream *stream, enum watch_tag tag);
void stream_close(struct sn_box *box, struct sn_stream *stream);
void stream_free(struct sn_stream *stream);

/* ---- small things ---- */

/* Unmaps what may be there. It is forgotten first, for the reason that fd_close has. */
static inline void memory_free(uint8_t **mapping, size_t size)
{
	uint8_t *freed = __atomic_exchange_n(mapping, NULL, __ATOMIC_SEQ_CST);
	if (freed)
		munmap(freed, size);
}

static inline uint64_t now_ns(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* What is left until `until_ns`, rounded up to whole milliseconds as poll counts them. */
static inline int left_ms(uint64_t until_ns)
{
	uint64_t now = now_ns();
	if (until_ns <= now)
		return 0;
	uint64_t left = (until_ns - now + 999999u) / 1000000u;
	return left > 1u << 30 ? 1 << 30 : (int)left;
}

/* Signal sets as the kernel has them. The C library's calls would leave out its own signals, and the newest
 * versions of their symbols would tie the wheel to a recent glibc. */
static inline uint64_t signals_mask(int how, uint64_t set)
{
	uint64_t before = 0;
	syscall(SYS_rt_sigprocmask, how, &set, &before, sizeof set);
	return before;
}
