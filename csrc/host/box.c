/* One box from the host's side: its descriptors, its start and its end. Called by backends/box.py; pump.c does what is between.
 *
 * A run is one message on the slot's socket: the request with the channel and the guest's ends of the pipes. Who waits there for
 * it is the guest-to-be that init keeps parked.
 *
 * Calls on one box are serialised by the caller, except sn_box_end(): it may come from any thread while another is in
 * sn_box_wait(). For its sake channel and pidfd stay open until sn_box_close().
 */

#include "host.h"

#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

enum {
	SEND_MS = 1000,
	STARTED_MS = 1000, /* at close: for the guest-to-be to tell init's pidfd */
	END_MS = 2000,     /* at close: for the kernel to end a box after SIGKILL */
	TREE_MS = 15000,   /* at close: for init to end a tree that it must look for */
};

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8u
#endif

static void guest_fds_close(struct guest_fds *guest)
{
	if (guest->err != guest->out)
		fd_close(&guest->err);
	fd_close(&guest->channel);
	fd_close(&guest->in);
	fd_close(&guest->out);
	fd_close(&guest->body);
}

void sn_box_init(struct sn_box *box)
{
	*box = (struct sn_box){
		.epoll = -1,
		.channel = -1,
		.pidfd = -1,
		.stdin_fd = -1,
		.stdin_source = -1,
		.workspace_fd = -1,
		.changes_fd = -1,
		.handed_in = -1,
		.handed_out = -1,
		.out = {.fd = -1},
		.err = {.fd = -1},
	};
}

int box_watch(struct sn_box *box, int fd, uint32_t events, enum watch_tag tag)
{
	struct epoll_event event = {.events = events, .data.u32 = tag};
	if (!epoll_ctl(box->epoll, EPOLL_CTL_ADD, fd, &event))
		return 0;
	if (errno == EEXIST && !epoll_ctl(box->epoll, EPOLL_CTL_MOD, fd, &event))
		return 0;
	return -errno;
}

void box_unwatch(struct sn_box *box, int fd)
{
	epoll_ctl(box->epoll, EPOLL_CTL_DEL, fd, NULL);
}

static int open_channel(struct sn_box *box, int *theirs, struct sn_failure *why)
{
	int pair[2];
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return failed(why, SN_STAGE_CHANNEL, errno, "box");
	box->channel = pair[0];
	*theirs = pair[1];
	int error = box_watch(box, box->channel, EPOLLIN, TAG_CHANNEL);
	return error ? failed(why, SN_STAGE_CHANNEL, -error, "box") : 0;
}

/* A memfd that nobody can change any more, for a body too long for a message: the descriptor, or -errno. */
static int body_file(const uint8_t *body, uint64_t size)
{
	unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
	owned_fd file = (int)syscall(SYS_memfd_create, "request", flags | MFD_NOEXEC_SEAL);
	if (file < 0 && errno == EINVAL) /* before Linux 6.3 */
		file = (int)syscall(SYS_memfd_create, "request", flags);
	if (file < 0)
		return -errno;
	for (uint64_t at = 0; at < size;) {
		ssize_t done = pwrite(file, body + at, size - at, (off_t)at);
		if (done < 0)
			return -errno;
		at += (uint64_t)done;
	}
	if (fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) < 0)
		return -errno;
	return fd_move(&file);
}

/* One message: the header, the body where it is short enough, and the descriptors in the order that run.h gives. */
static int send_request(struct sn_process *slot, struct sn_request *header, const uint8_t *body, struct guest_fds *guest,
			const struct sn_given *given)
{
	struct iovec parts[2] = {
		{.iov_base = header, .iov_len = sizeof *header},
		{.iov_base = (void *)(uintptr_t)body, .iov_len = header->body_bytes},
	};
	const int more[] = {given->workspace, given->upper, given->explain};
	int fds[8] = {guest->channel, guest->in, guest->out, guest->err};
	unsigned count = 4;
	if (header->flags & SN_REQUEST_BODY_FD) {
		guest->body = body_file(body, header->body_bytes);
		if (guest->body < 0)
			return guest->body;
		fds[count++] = guest->body;
	}
	for (unsigned i = 0; i < sizeof more / sizeof *more; i++)
		if (more[i] >= 0)
			fds[count++] = more[i];
	return message_send(slot->control, parts, header->flags & SN_REQUEST_BODY_FD ? 1 : 2, fds, count, SEND_MS);
}

static int start(struct sn_box *box, struct sn_process *slot, const struct sn_request *request, const uint8_t *body,
		 const struct sn_given *given, struct sn_failure *why)
{
	__attribute__((cleanup(guest_fds_close))) struct guest_fds guest = {-1, -1, -1, -1, -1};
	struct sn_request header = *request;

	box->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (box->epoll < 0)
		return failed(why, SN_STAGE_CHANNEL, errno, "epoll");
	int error = open_channel(box, &guest.channel, why);
	if (!error)
		error = stdio_open(box, &guest, why);
	if (error)
		return error;
	header.flags &= ~(uint32_t)(SN_REQUEST_BODY_FD | SN_REQUEST_WORKSPACE | SN_REQUEST_UPPER | SN_REQUEST_EXPLAIN);
	header.flags |= given->workspace >= 0 ? SN_REQUEST_WORKSPACE : 0;
	header.flags |= given->upper >= 0 ? SN_REQUEST_UPPER : 0;
	header.flags |= given->explain >= 0 ? SN_REQUEST_EXPLAIN : 0;
	header.flags |= header.body_bytes > SN_INLINE_BYTES ? SN_REQUEST_BODY_FD : 0;
	error = send_request(slot, &header, body, &guest, given);
	if (error == -EMSGSIZE && !(header.flags & SN_REQUEST_BODY_FD)) { /* a machine with small socket buffers */
		header.flags |= SN_REQUEST_BODY_FD;
		error = send_request(slot, &header, body, &guest, given);
	}
	if (error == -EPIPE || error == -ECONNRESET || error == -EBADF)
		return failed(why, SN_STAGE_LOST, EPIPE, "slot");
	return error ? failed(why, SN_STAGE_CHANNEL, -error, "request") : 0;
}

int sn_box_start(struct sn_box *box, struct sn_process *slot, struct sn_request *request, const uint8_t *body,
		 const struct sn_given *given, int grace_ms, struct sn_failure *why)
{
	if (box->state != SN_BOX_NEW || box->epoll >= 0)
		return failed(why, SN_STAGE_REQUEST, EINVAL, "box");
	box->started_ns = now_ns();
	box->deadline_ns = box->started_ns + request->wall_ns + (uint64_t)grace_ms * 1000000u;
	int error = start(box, slot, request, body, given, why);
	if (error) {
		sn_box_close(box);
		return error;
	}
	box->state = SN_BOX_RUNNING;
	return 0;
}

void box_kill(struct sn_box *box, uint32_t reason)
{
	uint32_t before = __atomic_fetch_or(&box->kill, reason, __ATOMIC_SEQ_CST);
	int pidfd = __atomic_load_n(&box->pidfd, __ATOMIC_SEQ_CST);
	if (pidfd < 0 || before & KILL_SENT)
		return; /* when STARTED brings it, the pump calls again */
	__atomic_fetch_or(&box->kill, KILL_SENT, __ATOMIC_SEQ_CST);
	pidfd_kill(pidfd);
	box_watch(box, pidfd, EPOLLIN, TAG_PIDFD);
}

int sn_box_end(struct sn_box *box, uint32_t verb)
{
	uint32_t none = 0;
	if (box->state != SN_BOX_RUNNING)
		return 0;
	bool first = __atomic_compare_exchange_n(&box->ending, &none, verb, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
	if (first && send(box->channel, &verb, sizeof verb, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0) {
		int pidfd = __atomic_load_n(&box->pidfd, __ATOMIC_SEQ_CST);
		if (pidfd >= 0) /* an init that somebody has stopped would not hear of it before the deadline */
			syscall(NR_pidfd_send_signal, pidfd, SIGCONT, NULL, 0);
		return 0;
	}
	box_kill(box, KILL_WANTED);
	return 0;
}

/* SIGKILL to init and a wait for its end, which is the end of its whole pid namespace. Where there is none, init ends the tree when
 * it hears that we are gone; what outlives it the slot ends. */
static void end_running(struct sn_box *box)
{
	struct sn_report last;
	struct pollfd channel = {.fd = box->channel, .events = POLLIN};
	if (box->pidfd < 0 && box->channel >= 0 && poll(&channel, 1, STARTED_MS) > 0) {
		int fd;
		if (message_receive(box->channel, &last, sizeof last, &fd) == (ssize_t)sizeof last && last.kind == SN_REPORT_STARTED)
			box->pidfd = fd, box->report = last;
		else
			fd_close(&fd);
	}
	if (box->pidfd < 0)
		return; /* it ended, or ends for want of a channel */
	if (box->report.held & SN_HELD_SUBREAPER) {
		shutdown(box->channel, SHUT_RDWR);
		if (pidfd_wait(box->pidfd, TREE_MS))
			return;
	}
	pidfd_kill(box->pidfd);
	pidfd_wait(box->pidfd, END_MS);
}

static void close_all(struct sn_box *box)
{
	fd_close(&box->epoll);
	fd_close(&box->channel);
	fd_close(&box->pidfd);
	fd_close(&box->stdin_fd);
	fd_close(&box->workspace_fd);
	fd_close(&box->changes_fd);
	fd_close(&box->handed_in);
	fd_close(&box->handed_out);
	fd_close(&box->out.fd);
	fd_close(&box->err.fd);
	stream_free(&box->out);
	stream_free(&box->err);
	memory_free(&box->relay, RELAY_BYTES);
	box->flags = 0;
	box->state = SN_BOX_NEW;
}

void sn_box_close(struct sn_box *box)
{
	if (box->state == SN_BOX_RUNNING)
		end_running(box);
	if (box->channel >= 0)
		shutdown(box->channel, SHUT_RDWR); /* a forked child of the host may hold a copy */
	close_all(box);
}

void sn_box_abandon(struct sn_box *box)
{
	close_all(box);
}
