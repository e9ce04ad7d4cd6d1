/* Messages with descriptors over SOCK_SEQPACKET, and the failure record. Used by control.c, box.c and pump.c. */

#include "host.h"

#include <string.h>
#include <sys/socket.h>

union fd_message {
	char bytes[CMSG_SPACE(MESSAGE_MAX_FDS * sizeof(int))];
	struct cmsghdr align;
};

int failed(struct sn_failure *why, uint32_t stage, int error, const char *item)
{
	*why = (struct sn_failure){.stage = stage, .error = error};
	memcpy(why->item, item, strnlen(item, SN_ITEM_BYTES - 1));
	return -error;
}

int message_send(int socket, const struct iovec *parts, size_t count, const int *fds, unsigned fd_count, int timeout_ms)
{
	union fd_message control;
	struct msghdr message = {.msg_iov = (struct iovec *)(uintptr_t)parts, .msg_iovlen = count};
	if (fd_count > MESSAGE_MAX_FDS)
		return -E2BIG;
	if (fd_count) {
		memset(&control, 0, sizeof control);
		message.msg_control = control.bytes;
		message.msg_controllen = CMSG_SPACE(fd_count * sizeof(int));
		struct cmsghdr *head = CMSG_FIRSTHDR(&message);
		head->cmsg_level = SOL_SOCKET;
		head->cmsg_type = SCM_RIGHTS;
		head->cmsg_len = CMSG_LEN(fd_count * sizeof(int));
		memcpy(CMSG_DATA(head), fds, fd_count * sizeof(int));
	}
	for (uint64_t until = now_ns() + (uint64_t)timeout_ms * 1000000u;;) {
		if (sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0)
			return 0;
		if (errno == EINTR)
			continue;
		int wait_ms = left_ms(until);
		if (errno != EAGAIN || !wait_ms)
			return -errno;
		poll(&(struct pollfd){.fd = socket, .events = POLLOUT}, 1, wait_ms);
	}
}

static int take_first_fd(struct msghdr *message)
{
	int first = -1;
	for (struct cmsghdr *head = CMSG_FIRSTHDR(message); head; head = CMSG_NXTHDR(message, head)) {
		if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS)
			continue;
		size_t here = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; i < here; i++) {
			int fd;
			memcpy(&fd, CMSG_DATA(head) + i * sizeof fd, sizeof fd);
			if (first < 0)
				first = fd;
			else
				close(fd);
		}
	}
	return first;
}

ssize_t message_receive(int socket, void *data, size_t size, int *fd)
{
	union fd_message control;
	struct iovec part = {.iov_base = data, .iov_len = size};
	struct msghdr message = {
		.msg_iov = &part,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = sizeof control.bytes,
	};
	ssize_t got;
	do /* ECONNRESET, told once: the peer ended with a message of ours unread. What it sent before is still to be read, then the end */
		got = recvmsg(socket, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
	while (got < 0 && (errno == EINTR || errno == ECONNRESET));
	*fd = -1;
	if (got < 0)
		return -errno;
	*fd = take_first_fd(&message);
	if (message.msg_flags & MSG_TRUNC) { /* longer than any message of the contract */
		fd_close(fd);
		return -EPROTO;
	}
	return got;
}
