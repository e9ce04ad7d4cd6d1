/* Messages with descriptors over SOCK_SEQPACKET. Used by every process of ours, the guest-to-be included. */

#include "launcher.h"

#include <sys/socket.h>
#include <sys/uio.h>

union fd_message {
	char bytes[CMSG_SPACE(CHANNEL_MAX_FDS * sizeof(int))];
	struct cmsghdr align;
};

long channel_send(int fd, const void *data, size_t size, const int *fds, unsigned count)
{
	struct iovec part = {.iov_base = (void *)(uintptr_t)data, .iov_len = size};
	union fd_message control = {{0}};
	struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
	if (count) {
		message.msg_control = control.bytes;
		message.msg_controllen = CMSG_SPACE(count * sizeof(int));
		struct cmsghdr *head = CMSG_FIRSTHDR(&message);
		head->cmsg_level = SOL_SOCKET;
		head->cmsg_type = SCM_RIGHTS;
		head->cmsg_len = CMSG_LEN(count * sizeof(int));
		memcpy(CMSG_DATA(head), fds, count * sizeof(int));
	}
	long sent;
	do
		sent = sys(SYS_sendmsg, fd, &message, MSG_NOSIGNAL);
	while (sent == -EINTR);
	return sent;
}

void channel_answer(int channel, const struct sn_failure *why, int fd)
{
	struct sn_answer message = {.version = SN_WIRE_VERSION, .pid = (int32_t)sys(SYS_getpid), .failure = *why};
	channel_send(channel, &message, sizeof message, &fd, fd >= 0);
}

static void take_fds(struct msghdr *message, int *fds, unsigned *count)
{
	unsigned room = *count;
	*count = 0;
	for (struct cmsghdr *head = CMSG_FIRSTHDR(message); head; head = CMSG_NXTHDR(message, head)) {
		if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS)
			continue;
		unsigned here = (unsigned)((head->cmsg_len - CMSG_LEN(0)) / sizeof(int));
		for (unsigned i = 0; i < here; i++) {
			int fd;
			memcpy(&fd, CMSG_DATA(head) + i * sizeof(int), sizeof fd);
			if (*count < room)
				fds[(*count)++] = fd;
			else
				sys(SYS_close, fd);
		}
	}
}

long channel_receive(int fd, void *data, size_t size, void *more, size_t more_size, int *fds, unsigned *count)
{
	struct iovec parts[2] = {{.iov_base = data, .iov_len = size}, {.iov_base = more, .iov_len = more_size}};
	union fd_message control;
	struct msghdr message = {
		.msg_iov = parts,
		.msg_iovlen = more ? 2 : 1,
		.msg_control = control.bytes,
		.msg_controllen = sizeof control.bytes,
	};
	long got;
	do
		got = sys(SYS_recvmsg, fd, &message, MSG_CMSG_CLOEXEC);
	while (got == -EINTR);
	if (got < 0) {
		*count = 0;
		return got;
	}
	take_fds(&message, fds, count);
	return got;
}

/* The channel of the next request on a slot's socket, for who can only refuse it; -1 when the host has closed the socket. */
int channel_for_box(int control)
{
	for (;;) {
		uint32_t version;
		int channel;
		unsigned count = 1;
		if (channel_receive(control, &version, sizeof version, NULL, 0, &channel, &count) <= 0)
			return -1;
		if (count == 1)
			return channel;
	}
}

/* A report, with a descriptor if `fd` is one; without it where guests have too many under way. */
void channel_report(int channel, const struct sn_report *report, int fd)
{
	if (channel_send(channel, report, sizeof *report, &fd, fd >= 0) == -ETOOMANYREFS)
		channel_send(channel, report, sizeof *report, NULL, 0);
}
