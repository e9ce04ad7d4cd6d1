/* The guest's three standard descriptors and our ends of their pipes, before a run begins. Called by box.c.
 *
 * A pipe that the caller made joins guests without us: nothing of it is read, written or counted here, and we keep no end of it.
 */

#include "host.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/stat.h>

/* A pipe of which our end does not block and the guest's does: the two ends are two open files. Its inode is the host
 * user's, and a guest that opens /dev/stdout or /proc/self/fd/1 by name may be another: nobody else can reach it. */
static int make_pipe(int32_t *ours, int *guest, bool we_write)
{
	int ends[2];
	if (pipe2(ends, O_CLOEXEC) < 0)
		return -errno;
	*ours = ends[we_write];
	*guest = ends[!we_write];
	return fchmod(*guest, 0666) < 0 || fcntl(*ours, F_SETFL, O_NONBLOCK) < 0 ? -errno : 0;
}

/* An end of a pipe that the caller made: the same open file, so that the guest holds it alone once the caller has closed its own
 * copy, and its end is the pipe's. Its inode is treated as one of ours. */
static int hand_over(int32_t *end)
{
	fchmod(*end, 0666); /* refused for another user's pipe, which then cannot be opened by name */
	return fd_move(end);
}

static int open_stdin(struct sn_box *box, struct guest_fds *guest)
{
	if (box->handed_in >= 0) {
		guest->in = hand_over(&box->handed_in);
		return 0;
	}
	if (!box->stdin_size && box->stdin_source < 0 && !(box->flags & SN_BOX_STDIN_PIPE)) {
		guest->in = open("/dev/null", O_RDONLY | O_CLOEXEC);
		return guest->in < 0 ? -errno : 0;
	}
	int error = make_pipe(&box->stdin_fd, &guest->in, true);
	return error ? error : stdin_feed(box, false);
}

static int open_stream(struct sn_box *box, struct sn_stream *stream, int *guest, enum watch_tag tag)
{
	int error = make_pipe(&stream->fd, guest, false);
	if (error)
		return error;
	stream->flags |= SN_STREAM_OPEN | STREAM_WATCHED;
	return box_watch(box, stream->fd, EPOLLIN, tag);
}

int stdio_open(struct sn_box *box, struct guest_fds *guest, struct sn_failure *why)
{
	int error = open_stdin(box, guest);
	if (error)
		return failed(why, SN_STAGE_STDIO, -error, "stdin");
	if (box->handed_out >= 0)
		guest->out = hand_over(&box->handed_out);
	else
		error = open_stream(box, &box->out, &guest->out, TAG_OUT);
	if (error)
		return failed(why, SN_STAGE_STDIO, -error, "stdout");
	if (box->flags & SN_BOX_MERGE)
		guest->err = guest->out;
	else if ((error = open_stream(box, &box->err, &guest->err, TAG_ERR)))
		return failed(why, SN_STAGE_STDIO, -error, "stderr");
	return 0;
}
