/* The loop of a run: standard streams, the channel and the deadline, one epoll set. Called by backends/box.py.
 *
 * What ends a run, first come first served:
 *   the report        sent when the guest's tree is dead and reaped, so the pipes are emptied without waiting for their
 *                     end: somebody may still hold them open
 *   end of channel    init, or the slot before it, ended without a report. SIGKILL to init if its pidfd is known, and
 *                     its end is awaited: then nothing of the box is left, whatever happened
 *   init's own end    after a SIGKILL of ours
 *   deadline_ns       init keeps the wall time; this is later, for an init that does not answer. SIGKILL
 */

#include "host.h"

#include <sys/epoll.h>

enum { EVENTS_AT_ONCE = 8 };

static int run_ends(struct sn_box *box)
{
	stdin_close(box);
	box_unwatch(box, box->channel);
	int error = stream_finish(box, &box->out);
	if (error >= 0)
		error = stream_finish(box, &box->err);
	box->state = SN_BOX_DONE;
	return error < 0 ? error : 0;
}

/* No report will come. If the end is our own doing it is one of the ways in which runs end; else we failed. What held
 * is as the slot said when it started. Without a pid namespace the tree is still there when init is killed at the deadline, and
 * what it used and how many they are nobody will tell: that is a failure too. */
static int run_ends_unreported(struct sn_box *box, int error)
{
	struct sn_report *report = &box->report;
	uint32_t kill = __atomic_load_n(&box->kill, __ATOMIC_SEQ_CST);

	report->version = SN_WIRE_VERSION;
	report->wall_ns = now_ns() - box->started_ns;
	bool unknown = kill & KILL_DEADLINE && report->held & SN_HELD_SUBREAPER;
	if (!(kill & KILL_SENT) || unknown) {
		report->kind = SN_REPORT_FAILED;
		failed(&report->failure, SN_STAGE_LOST, unknown ? ETIMEDOUT : error, box->pidfd < 0 ? "slot" : "init");
		return run_ends(box);
	}
	report->kind = SN_REPORT_ENDED;
	report->wait_status = SIGKILL;
	if (kill & KILL_DEADLINE) /* killed here, at the deadline, and nothing else */
		report->ended_by = SN_BY_WALL;
	else
		report->ended_by = box->ending == SN_END_OUTPUT ? SN_BY_OUTPUT : SN_BY_CANCEL;
	return run_ends(box);
}

static int channel_lost(struct sn_box *box, int error)
{
	if (box->flags & BOX_CHANNEL_LOST)
		return 0;
	box->flags |= BOX_CHANNEL_LOST;
	box_unwatch(box, box->channel);
	if (box->pidfd < 0)
		return run_ends_unreported(box, error);
	pidfd_kill(box->pidfd);
	return box_watch(box, box->pidfd, EPOLLIN, TAG_PIDFD);
}

/* Takes over a message of the right size. */
static int take_report(struct sn_box *box, const struct sn_report *report, int *fd)
{
	if (report->version != SN_WIRE_VERSION)
		return channel_lost(box, EPROTO);
	if (report->kind == SN_REPORT_CHANGES) {
		if (box->changes_fd < 0)
			box->changes_fd = fd_move(fd);
		return 0;
	}
	box->report = *report;
	box->report.failure.item[SN_ITEM_BYTES - 1] = 0;
	if (report->kind == SN_REPORT_STARTED) {
		if (box->pidfd < 0)
			__atomic_store_n(&box->pidfd, fd_move(fd), __ATOMIC_SEQ_CST);
		if (__atomic_load_n(&box->kill, __ATOMIC_SEQ_CST))
			box_kill(box, 0);
		return 0;
	}
	if (box->workspace_fd < 0)
		box->workspace_fd = fd_move(fd);
	return run_ends(box);
}

/* One message, or the end: 0, -EAGAIN when there is neither, or another -errno. */
static int serve_channel(struct sn_box *box)
{
	struct sn_report report;
	owned_fd fd = -1;
	if (box->flags & BOX_CHANNEL_LOST)
		return -EAGAIN;
	ssize_t got = message_receive(box->channel, &report, sizeof report, &fd);
	if (got == -EAGAIN)
		return -EAGAIN;
	if (got == (ssize_t)sizeof report)
		return take_report(box, &report, &fd);
	return channel_lost(box, got > 0 ? EPROTO : got < 0 ? (int)-got : EPIPE);
}

/* Init is gone, and with it its pid namespace. A report that it sent before is the truth. */
static int serve_pidfd(struct sn_box *box)
{
	int error = 0;
	while (!error && box->state == SN_BOX_RUNNING && !(box->flags & BOX_CHANNEL_LOST))
		error = serve_channel(box);
	if (box->state == SN_BOX_DONE)
		return 0;
	return error && error != -EAGAIN ? error : run_ends_unreported(box, EPIPE);
}

/* 1: the caller wants to know of it, 0, or -errno. */
static int serve_stream(struct sn_box *box, struct sn_stream *stream)
{
	uint32_t open = stream->flags & SN_STREAM_OPEN;
	int came = stream_read(box, stream, false);
	if (came < 0 || !(stream->flags & SN_STREAM_FLOW))
		return came < 0 ? came : 0;
	return came || open != (stream->flags & SN_STREAM_OPEN);
}

static int serve(struct sn_box *box, const struct epoll_event *event)
{
	int result;
	if (box->state == SN_BOX_DONE)
		return 0;
	switch (event->data.u32) {
	case TAG_OUT:
		return serve_stream(box, &box->out);
	case TAG_ERR:
		return serve_stream(box, &box->err);
	case TAG_CHANNEL:
		result = serve_channel(box);
		return result == -EAGAIN ? 0 : result;
	case TAG_PIDFD:
		return serve_pidfd(box);
	case TAG_SOURCE:
		return stdin_feed(box, true);
	default:
		if (box->flags & SN_BOX_STDIN_PIPE)
			return 1;
		if (event->events & EPOLLERR) { /* the guest has closed it */
			stdin_close(box);
			return 0;
		}
		return stdin_feed(box, false);
	}
}

static int deadline_passed(struct sn_box *box)
{
	if (box->pidfd >= 0) {
		box_kill(box, KILL_DEADLINE);
		box->deadline_ns = UINT64_MAX;
		return 0;
	}
	/* Not even STARTED came: the slot hangs. Its channel is closed at sn_box_close, and init ends for want of it. */
	return run_ends_unreported(box, ETIMEDOUT);
}

static int rearm(struct sn_box *box)
{
	int error = stream_rearm(box, &box->out, TAG_OUT);
	return error ? error : stream_rearm(box, &box->err, TAG_ERR);
}

/* After the end: what still waits in the pipes for a reader. */
static int refill(struct sn_box *box)
{
	int error = stream_finish(box, &box->out);
	if (error >= 0)
		error = stream_finish(box, &box->err);
	return error < 0 ? error : 1;
}

static int wait_for_end(struct sn_box *box, int timeout_ms)
{
	struct epoll_event events[EVENTS_AT_ONCE];
	uint64_t until = timeout_ms < 0 ? UINT64_MAX : now_ns() + (uint64_t)timeout_ms * 1000000u;
	int error = rearm(box);

	while (!error) {
		uint64_t next = until < box->deadline_ns ? until : box->deadline_ns;
		int count = epoll_wait(box->epoll, events, EVENTS_AT_ONCE, next == UINT64_MAX ? -1 : left_ms(next));
		if (count < 0)
			return -errno;
		bool grew = false;
		for (int i = 0; i < count; i++) {
			int served = serve(box, &events[i]);
			if (served < 0)
				return served;
			grew = grew || served;
		}
		if (box->state == SN_BOX_DONE)
			return 1;
		if (grew)
			return 0;
		uint64_t now = now_ns();
		if (now >= box->deadline_ns)
			error = deadline_passed(box);
		if (box->state == SN_BOX_DONE)
			return 1;
		if (now >= until)
			return error;
	}
	return error;
}

int sn_box_wait(struct sn_box *box, int timeout_ms, struct sn_failure *why)
{
	int result;
	if (box->state == SN_BOX_RUNNING)
		result = wait_for_end(box, timeout_ms);
	else if (box->state == SN_BOX_DONE)
		result = refill(box);
	else
		result = -EINVAL;
	if (result < 0 && result != -EINTR)
		failed(why, SN_STAGE_STDIO, -result, box->flags & BOX_STDIN_FAILED ? "stdin" : "pump");
	return result;
}
