/* What the guest writes: kept up to the bound, then read, counted and thrown away, or left in the pipe for a reader.
 * Called by pump.c; sn_stream_take by whoever reads while the guest runs.
 *
 * Captures are anonymous mappings, made at the first byte. Each is longer than its bound by SPILL_BYTES, and what
 * is read past the bound lands there again and again: one read serves both sides of the bound, and the
 * spilled memory is touched only by guests that write too much.
 */

#include "host.h"

#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>

enum {
	SPILL_BYTES = 65536, /* what a pipe holds: a longer read would bring no more */
	FLOOD_PIPE_BYTES = 262144, /* once the bound is passed */
	READS_AT_ONCE = 8,   /* then the other descriptors and the deadline have their turn */
	FIRST_READ = 4096,
	SMALL_READ = 4096,   /* less than this: the pipe is empty, or the writer is slower than us */
};

static size_t mapping_bytes(const struct sn_stream *stream)
{
	return ((stream->bound + 4095) & ~(uint64_t)4095) + SPILL_BYTES;
}

static int map_capture(struct sn_stream *stream)
{
	size_t size = mapping_bytes(stream);
	void *data = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (data == MAP_FAILED)
		return -errno;
	/* Where huge pages are the default, the first byte of a short output would cost the zeroing of 2 MiB. */
	madvise(data, size, MADV_NOHUGEPAGE);
	stream->data = data;
	return 0;
}

/* Room below the bound. Moves what the reader has not taken to the front, but not before half of it is free, so that
 * a byte is moved at most once. */
static uint64_t make_room(struct sn_stream *stream)
{
	if (stream->end == stream->bound && stream->start && stream->start >= stream->bound / 2) {
		memmove(stream->data, stream->data + stream->start, stream->end - stream->start);
		stream->end -= stream->start;
		stream->start = 0;
	}
	return stream->bound - stream->end;
}

/* With SN_BOX_KILL_ON_OVERFLOW the byte past the bound ends the run, so nothing is gained by waiting for a reader. */
static bool waits_for_reader(const struct sn_box *box, const struct sn_stream *stream)
{
	return stream->flags & SN_STREAM_FLOW && !(box->flags & SN_BOX_KILL_ON_OVERFLOW);
}

/* The first bytes, before there is a mapping: most streams of most runs are empty, and then none is made. */
static ssize_t read_first(struct sn_box *box, struct sn_stream *stream)
{
	uint8_t first[FIRST_READ];
	ssize_t got = read(stream->fd, first, sizeof first);
	if (got < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	if (!got) {
		stream_close(box, stream);
		return 0;
	}
	int error = map_capture(stream);
	if (error)
		return error;
	stream->end = (uint64_t)got < stream->bound ? (uint64_t)got : stream->bound;
	stream->total = (uint64_t)got;
	memcpy(stream->data, first, stream->end);
	return got;
}

/* One read: bytes, 0 when there is nothing more to read now, or -errno. */
static ssize_t read_once(struct sn_box *box, struct sn_stream *stream)
{
	if (!stream->data && stream->bound >= FIRST_READ) /* a shorter bound would lose bytes that a reader waits for */
		return read_first(box, stream);
	if (!stream->data) {
		int error = map_capture(stream);
		if (error)
			return error;
	}
	uint64_t room = make_room(stream);
	bool waits = waits_for_reader(box, stream);
	if (!room && waits) {
		if (stream->flags & STREAM_WATCHED)
			box_unwatch(box, stream->fd);
		stream->flags &= ~(uint32_t)STREAM_WATCHED;
		return 0;
	}
	ssize_t got = read(stream->fd, stream->data + stream->end, room + (waits ? 0 : SPILL_BYTES));
	if (got < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	if (!got) {
		stream_close(box, stream);
		return 0;
	}
	if (stream->total <= stream->bound && stream->total + (uint64_t)got > stream->bound)
		fcntl(stream->fd, F_SETPIPE_SZ, FLOOD_PIPE_BYTES); /* fewer turns for the rest; refused, it stays as it is */
	stream->end += (uint64_t)got < room ? (uint64_t)got : room;
	stream->total += (uint64_t)got;
	return got;
}

int stream_read(struct sn_box *box, struct sn_stream *stream, bool all)
{
	int came = 0;
	for (int i = 0; stream->fd >= 0 && (all || i < READS_AT_ONCE); i++) {
		ssize_t got = read_once(box, stream);
		if (got < 0)
			return (int)got;
		if (got)
			came = 1;
		if (!got || (!all && got < SMALL_READ))
			break;
	}
	if (stream->total > stream->bound && box->flags & SN_BOX_KILL_ON_OVERFLOW && !box->ending)
		sn_box_end(box, SN_END_OUTPUT);
	return came;
}

int stream_rearm(struct sn_box *box, struct sn_stream *stream, enum watch_tag tag)
{
	if (stream->fd < 0 || stream->flags & STREAM_WATCHED || (waits_for_reader(box, stream) && !make_room(stream)))
		return 0;
	int error = box_watch(box, stream->fd, EPOLLIN, tag);
	if (!error)
		stream->flags |= STREAM_WATCHED;
	return error;
}

int stream_finish(struct sn_box *box, struct sn_stream *stream)
{
	int came = stream_read(box, stream, true);
	if (came >= 0 && stream->fd >= 0 && (!waits_for_reader(box, stream) || make_room(stream)))
		stream_close(box, stream);
	return came;
}

void stream_close(struct sn_box *box, struct sn_stream *stream)
{
	if (stream->fd >= 0 && stream->flags & STREAM_WATCHED)
		box_unwatch(box, stream->fd);
	stream->flags &= ~(uint32_t)(STREAM_WATCHED | SN_STREAM_OPEN);
	fd_close(&stream->fd);
}

void stream_free(struct sn_stream *stream)
{
	memory_free(&stream->data, mapping_bytes(stream));
	stream->start = stream->end = 0;
}

int64_t sn_stream_take(struct sn_stream *stream, uint8_t *into, uint64_t size)
{
	uint64_t there = stream->end - stream->start;
	uint64_t taken = there < size ? there : size;
	if (!taken)
		return 0;
	memcpy(into, stream->data + stream->start, taken);
	stream->start += taken;
	if (stream->start == stream->end)
		stream->start = stream->end = 0;
	return (int64_t)taken;
}
