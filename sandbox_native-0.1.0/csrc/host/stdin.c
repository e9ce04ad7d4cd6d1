/* Feeds the guest's standard input: from the caller's memory, from a descriptor of the caller's, or by sn_box_write().
 * Called by box.c once before the start and then by pump.c.
 *
 * A guest that never reads is no error, nor is one that closes its end.
 *
 * A caller's descriptor is relayed by read and write. splice would save a copy, but puts the very pages
 * of the host's file into a pipe that the guest holds, which is how a guest came to write to host files where a kernel forgot a
 * flag (CVE-2022-0847); and it would make nothing simpler, since terminals and some files refuse it.
 * The descriptor is the caller's, shared with who knows whom: it is not made non-blocking, but read once for each
 * time that it is said to be readable. Files that cannot be polled (regular ones) never wait.
 *
 * SIGPIPE: a write to a pipe without reader raises it in the calling thread, and the host may have left it at its
 * default. A socket would spare us that (MSG_NOSIGNAL), but programs that look at their stdin expect a pipe. So it
 * is blocked around the write and taken back, unless one was pending already.
 */

#include "host.h"

#include <sys/epoll.h>
#include <sys/mman.h>

enum {
	STEPS_AT_ONCE = 8, /* then the other descriptors and the deadline have their turn */
};

/* write, with -EPIPE instead of SIGPIPE. */
static ssize_t write_quietly(int fd, const uint8_t *data, uint64_t size)
{
	const uint64_t pipe_signal = (uint64_t)1 << (SIGPIPE - 1);
	const struct timespec none = {0};
	uint64_t pending = 0;

	syscall(SYS_rt_sigpending, &pending, sizeof pending);
	uint64_t before = signals_mask(SIG_BLOCK, pipe_signal);
	ssize_t done = write(fd, data, size);
	if (done < 0)
		done = -errno;
	if (done == -EPIPE && !(pending & pipe_signal))
		while (syscall(SYS_rt_sigtimedwait, &pipe_signal, NULL, &none, sizeof pipe_signal) < 0 && errno == EINTR)
			;
	signals_mask(SIG_SETMASK, before);
	return done;
}

/* Sees to it that the pump hears when stdin has room (`wanted`), or only when its reader is gone. */
static int watch_stdin(struct sn_box *box, bool wanted)
{
	int error = box_watch(box, box->stdin_fd, wanted ? EPOLLOUT : 0, TAG_STDIN);
	if (!error)
		box->flags |= BOX_STDIN_WATCHED;
	return error;
}

void stdin_close(struct sn_box *box)
{
	if (box->flags & BOX_SOURCE_WATCHED)
		box_unwatch(box, box->stdin_source);
	if (box->flags & BOX_STDIN_WATCHED && box->stdin_fd >= 0)
		box_unwatch(box, box->stdin_fd);
	box->flags &= ~(uint32_t)(BOX_SOURCE_WATCHED | BOX_STDIN_WATCHED);
	box->flags |= BOX_SOURCE_ENDED;
	fd_close(&box->stdin_fd);
}

static int feed_memory(struct sn_box *box)
{
	for (int i = 0; i < STEPS_AT_ONCE && box->stdin_done < box->stdin_size; i++) {
		uint64_t left = box->stdin_size - box->stdin_done;
		ssize_t done = write_quietly(box->stdin_fd, box->stdin_data + box->stdin_done, left);
		if (done == -EAGAIN || done == -EINTR)
			break;
		if (done < 0) { /* EPIPE: the guest wants no more */
			stdin_close(box);
			return 0;
		}
		box->stdin_done += (uint64_t)done;
		if ((uint64_t)done < left)
			break;
	}
	if (box->stdin_done < box->stdin_size)
		return box->flags & BOX_STDIN_WATCHED ? 0 : watch_stdin(box, true);
	stdin_close(box);
	return 0;
}

/* Waits for the source once. Afterwards it is out of the poll, hang-up included, until it is asked for again. */
static int watch_source(struct sn_box *box)
{
	int error = box_watch(box, box->stdin_source, EPOLLIN | EPOLLONESHOT, TAG_SOURCE);
	if (error == -EPERM) {
		box->flags |= BOX_SOURCE_FILE;
		return 0;
	}
	if (!error)
		box->flags |= BOX_SOURCE_WATCHED;
	return error;
}

/* 1: the relay buffer holds something, 0: nothing now (and no more, with BOX_SOURCE_ENDED), or -errno. */
static int fill_relay(struct sn_box *box)
{
	if (!box->relay) {
		void *relay = mmap(NULL, RELAY_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (relay == MAP_FAILED)
			return -errno;
		box->relay = relay;
	}
	ssize_t got = read(box->stdin_source, box->relay, RELAY_BYTES);
	if (got < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	if (!got)
		box->flags |= BOX_SOURCE_ENDED;
	box->relay_at = 0;
	box->relay_end = (uint64_t)got;
	return got > 0;
}

/* 1: the relay buffer is empty, 0: stdin is full, -EPIPE, or another -errno. */
static int drain_relay(struct sn_box *box)
{
	while (box->relay_at < box->relay_end) {
		ssize_t done = write_quietly(box->stdin_fd, box->relay + box->relay_at, box->relay_end - box->relay_at);
		if (done == -EAGAIN || done == -EINTR)
			return 0;
		if (done < 0)
			return (int)done;
		box->relay_at += (uint64_t)done;
	}
	return 1;
}

/* `readable`: the source was said to be. Only one side is waited for at a time: room while the relay holds something,
 * else the source. */
static int feed_relay(struct sn_box *box, bool readable)
{
	for (int i = 0; i < STEPS_AT_ONCE; i++) {
		int empty = drain_relay(box);
		if (empty == -EPIPE || (empty == 1 && box->flags & BOX_SOURCE_ENDED)) {
			stdin_close(box);
			return 0;
		}
		if (empty < 0)
			return empty;
		if (!empty)
			return watch_stdin(box, true);
		if (!readable && !(box->flags & BOX_SOURCE_FILE)) {
			int error = watch_source(box);
			if (error || !(box->flags & BOX_SOURCE_FILE))
				return error ? error : watch_stdin(box, false);
		}
		readable = false;
		int filled = fill_relay(box);
		if (filled < 0)
			return filled;
	}
	return watch_stdin(box, true); /* comes back at once: there is room */
}

int stdin_feed(struct sn_box *box, bool readable)
{
	if (box->stdin_fd < 0)
		return 0;
	if (box->stdin_source >= 0) {
		int error = feed_relay(box, readable);
		box->flags |= error ? BOX_STDIN_FAILED : 0;
		return error;
	}
	return box->flags & SN_BOX_STDIN_PIPE ? 0 : feed_memory(box);
}

int64_t sn_box_write(struct sn_box *box, const uint8_t *data, uint64_t size)
{
	if (box->stdin_fd < 0)
		return -EPIPE;
	if (!size)
		return 0;
	ssize_t done = write_quietly(box->stdin_fd, data, size);
	if (done == -EPIPE)
		stdin_close(box);
	if (done == -EAGAIN || done == -EINTR)
		done = 0;
	if (done >= 0 && (uint64_t)done < size) {
		/* Says once that there is room again; a standing watch would keep the caller's event loop busy. */
		int error = box_watch(box, box->stdin_fd, EPOLLOUT | EPOLLONESHOT, TAG_STDIN);
		if (error)
			return error;
		box->flags |= BOX_STDIN_WATCHED;
	}
	return done;
}

void sn_box_close_stdin(struct sn_box *box)
{
	stdin_close(box);
}
