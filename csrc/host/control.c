/* Requests to the launcher and the template, each with one answer. In the host process; called by backends/engine.py and features.py.
 *
 * An answer that is late would be taken for the next one's, so a socket whose peer let a timeout pass is shut down: for the
 * peer that is the end of its lifeline, and the caller makes a new sandbox.
 */

#include "host.h"

#include <string.h>
#include <sys/socket.h>

enum {
	SEND_MS = 1000,
	LAST_WORD_MS = 1000, /* for the one to say why the other ended */
};

union answer {
	struct sn_answer answer;
	struct sn_probes probes;
};

struct sources { /* where an answer may come from; [0] is where success comes from */
	struct pollfd socket[2];
	const char *name;
};

static struct sources listen_to(int first, int second, const char *name)
{
	return (struct sources){
		.socket = {{.fd = first, .events = POLLIN}, {.fd = second, .events = POLLIN}},
		.name = name,
	};
}

/* Takes a message that is there: its size, or 0. An end takes the socket out of the poll. */
static ssize_t take_answer(struct sources *from, union answer *into, int *fd)
{
	for (int i = 0; i < 2; i++) {
		if (from->socket[i].fd < 0 || !from->socket[i].revents)
			continue;
		ssize_t got = message_receive(from->socket[i].fd, into, sizeof *into, fd);
		if (got == 0)
			from->socket[i].fd = -1; /* poll passes over it */
		else if (got != -EAGAIN)
			return got;
	}
	return 0;
}

/* The size of the first message from either, or -errno with `why` filled. */
static ssize_t await_answer(struct sources *from, int timeout_ms, union answer *into, int *fd, struct sn_failure *why)
{
	int peers[2] = {from->socket[0].fd, from->socket[1].fd};
	uint64_t until = now_ns() + (uint64_t)timeout_ms * 1000000u;
	bool shortened = false;

	*fd = -1;
	for (;;) {
		int ready = poll(from->socket, 2, left_ms(until));
		if (ready < 0 && errno != EINTR)
			return failed(why, SN_STAGE_CHANNEL, errno, from->name);
		ssize_t got = ready > 0 ? take_answer(from, into, fd) : 0;
		if (got > 0)
			return got;
		if (got < 0)
			return failed(why, SN_STAGE_CHANNEL, (int)-got, from->name);
		if (from->socket[0].fd < 0 && from->socket[1].fd < 0)
			return failed(why, SN_STAGE_LOST, EPIPE, from->name);
		if ((from->socket[0].fd != peers[0] || from->socket[1].fd != peers[1]) && !shortened) {
			uint64_t soon = now_ns() + LAST_WORD_MS * (uint64_t)1000000;
			until = soon < until ? soon : until;
			shortened = true;
		}
		if (!ready)
			break;
	}
	for (int i = 0; i < 2; i++)
		if (peers[i] >= 0)
			shutdown(peers[i], SHUT_RDWR);
	return shortened ? failed(why, SN_STAGE_LOST, EPIPE, from->name) : failed(why, SN_STAGE_CHANNEL, ETIMEDOUT, from->name);
}

/* 0 and the descriptor that came along, or -errno: theirs, when they answered with a failure. */
static int read_answer(struct sources *from, int timeout_ms, struct sn_answer *answer, int *fd, struct sn_failure *why)
{
	union answer got;
	ssize_t size = await_answer(from, timeout_ms, &got, fd, why);
	if (size < 0)
		return (int)size;
	*answer = got.answer;
	if (size != (ssize_t)sizeof *answer || answer->version != SN_WIRE_VERSION)
		return failed(why, SN_STAGE_CHANNEL, EPROTO, from->name);
	if (answer->failure.stage == SN_STAGE_NONE)
		return 0;
	*why = answer->failure;
	why->item[SN_ITEM_BYTES - 1] = 0;
	return answer->failure.error > 0 ? -answer->failure.error : -EIO;
}

static int ask(int socket, const struct sn_control *message, const int *fds, unsigned count, const char *name, struct sn_failure *why)
{
	struct iovec part = {.iov_base = (void *)(uintptr_t)message, .iov_len = sizeof *message};
	int error = socket < 0 ? -EPIPE : message_send(socket, &part, 1, fds, count, SEND_MS);
	if (!error)
		return 0;
	bool lost = error == -EPIPE || error == -ECONNRESET;
	return failed(why, lost ? SN_STAGE_LOST : SN_STAGE_CHANNEL, -error, name);
}

/* SN_START with the plan and the template's end of a new socket; *ours is the other end. */
static int send_plan(struct sn_process *launcher, int plan_fd, int *ours, struct sn_failure *why)
{
	const struct sn_control message = {.version = SN_WIRE_VERSION, .verb = SN_START};
	int pair[2];
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return failed(why, SN_STAGE_SPAWN, errno, "template socket");
	*ours = pair[0];
	owned_fd theirs = pair[1];
	return ask(launcher->control, &message, (const int[]){plan_fd, theirs}, 2, "launcher", why);
}

int sn_launcher_plan(struct sn_process *launcher, int plan_fd, int32_t *template_control, int timeout_ms, struct sn_failure *why)
{
	owned_fd ours = -1, fd = -1;
	struct sn_answer answer;
	*template_control = -1;
	int error = send_plan(launcher, plan_fd, &ours, why);
	if (error)
		return error;
	/* The template answers when its root stands. What fails before there is a template, the launcher answers. */
	struct sources from = listen_to(ours, launcher->control, "template");
	error = read_answer(&from, timeout_ms, &answer, &fd, why);
	if (!error)
		*template_control = fd_move(&ours);
	return error;
}

int sn_launcher_probe(struct sn_process *launcher, int plan_fd, struct sn_probes *out, int timeout_ms, struct sn_failure *why)
{
	owned_fd ours = -1, fd = -1;
	union answer got;
	int error = send_plan(launcher, plan_fd, &ours, why);
	if (error)
		return error;
	struct sources from = listen_to(launcher->control, ours, "probe");
	ssize_t size = await_answer(&from, timeout_ms, &got, &fd, why);
	if (size < 0)
		return (int)size;
	if (size == (ssize_t)sizeof got.probes && got.probes.version == SN_WIRE_VERSION) {
		*out = got.probes;
		return 0;
	}
	if (size != (ssize_t)sizeof got.answer || got.answer.failure.stage == SN_STAGE_NONE)
		return failed(why, SN_STAGE_CHANNEL, EPROTO, "probe");
	*why = got.answer.failure;
	return why->error > 0 ? -why->error : -EIO;
}

int sn_launcher_bind(struct sn_process *launcher, const char *path, uint32_t flags, uint64_t device, uint64_t inode,
		     int timeout_ms, struct sn_failure *why)
{
	struct sn_control message = {
		.version = SN_WIRE_VERSION,
		.verb = SN_BIND,
		.flags = flags,
		.device = device,
		.inode = inode,
	};
	size_t length = strlen(path);
	if (length >= sizeof message.path)
		return failed(why, SN_STAGE_WORKSPACE, ENAMETOOLONG, path);
	memcpy(message.path, path, length + 1);
	int error = ask(launcher->control, &message, NULL, 0, "launcher", why);
	if (error)
		return error;
	owned_fd mount = -1;
	struct sn_answer answer;
	struct sources from = listen_to(launcher->control, -1, "launcher");
	error = read_answer(&from, timeout_ms, &answer, &mount, why);
	if (error)
		return error;
	return mount >= 0 ? fd_move(&mount) : failed(why, SN_STAGE_WORKSPACE, EPROTO, path);
}

int sn_launcher_explain(struct sn_process *launcher, int socket, int denials, int timeout_ms, struct sn_failure *why)
{
	struct sn_control message = {.version = SN_WIRE_VERSION, .verb = SN_EXPLAIN};
	const int fds[] = {socket, denials};
	int error = ask(launcher->control, &message, fds, 2, "launcher", why);
	if (error)
		return error;
	owned_fd supervisor = -1;
	struct sn_answer answer;
	struct sources from = listen_to(launcher->control, -1, "launcher");
	error = read_answer(&from, timeout_ms, &answer, &supervisor, why);
	if (error)
		return error;
	/* It was sent: what does not arrive found no room here. */
	return supervisor >= 0 ? fd_move(&supervisor) : failed(why, SN_STAGE_EXPLAIN, EMFILE, "supervisor");
}

int sn_slot_open(struct sn_process *template, const uint32_t *gauges, const int32_t *fds, uint32_t count, uint32_t idle_seconds, uint32_t hold_us,
		 struct sn_process *slot, int timeout_ms, struct sn_failure *why)
{
	struct sn_control message = {
		.version = SN_WIRE_VERSION,
		.verb = SN_SLOT,
		.flags = idle_seconds,
		.gauges = count,
		.hold_us = hold_us,
	};
	int sent[1 + SN_MAX_GAUGES], pair[2];

	*slot = (struct sn_process){.pidfd = -1, .control = -1};
	if (count > SN_MAX_GAUGES)
		return failed(why, SN_STAGE_CGROUP, E2BIG, "gauges");
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return failed(why, SN_STAGE_SPAWN, errno, "slot socket");
	owned_fd ours = pair[0], theirs = pair[1], pidfd = -1;
	sent[0] = theirs;
	for (uint32_t i = 0; i < count; i++) {
		message.gauge[i] = gauges[i];
		sent[1 + i] = fds[i];
	}
	int error = ask(template->control, &message, sent, 1 + count, "template", why);
	if (error)
		return error;
	fd_close(&theirs);

	struct sn_answer answer;
	struct sources from = listen_to(ours, -1, "slot"); /* also the template answers there when it cannot make one */
	error = read_answer(&from, timeout_ms, &answer, &pidfd, why);
	if (error)
		return error;
	if (pidfd < 0)
		return failed(why, SN_STAGE_CHANNEL, EPROTO, "slot");
	*slot = (struct sn_process){.pid = answer.pid, .pidfd = fd_move(&pidfd), .control = fd_move(&ours)};
	return 0;
}
