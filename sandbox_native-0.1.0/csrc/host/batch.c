/* Many boxes in one loop: an epoll set of the boxes' own epoll sets. Called by backends/crowd.py, on one thread, for as many
 * boxes as a batch runs at once.
 */

#include "host.h"

#include <sys/epoll.h>

enum { EVENTS_AT_ONCE = 64 };
static const uint64_t WAKE = UINT64_MAX; /* no box has that place */

int sn_batch_add(int epoll, struct sn_box *box, uint32_t place)
{
	struct epoll_event event = {.events = EPOLLIN, .data.u64 = place};
	return epoll_ctl(epoll, EPOLL_CTL_ADD, box->epoll, &event) < 0 ? -errno : 0;
}

int sn_batch_wake_by(int epoll, int fd)
{
	struct epoll_event event = {.events = EPOLLIN, .data.u64 = WAKE};
	return epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
}

int sn_batch_remove(int epoll, struct sn_box *box)
{
	return epoll_ctl(epoll, EPOLL_CTL_DEL, box->epoll, NULL) < 0 ? -errno : 0;
}

static uint64_t first_deadline(struct sn_box *const *boxes, uint32_t count)
{
	uint64_t first = UINT64_MAX;
	for (uint32_t i = 0; i < count; i++)
		if (boxes[i] && boxes[i]->deadline_ns < first)
			first = boxes[i]->deadline_ns;
	return first;
}

/* Serves one box; whether the caller is to look at it: it is done, or something failed, which a call of sn_box_wait tells again. */
static bool is_over(struct sn_box *box)
{
	struct sn_failure why;
	int result = sn_box_wait(box, 0, &why);
	return result == 1 || (result < 0 && result != -EINTR);
}

static uint32_t serve_late(struct sn_box *const *boxes, uint32_t count, uint32_t *done)
{
	uint64_t now = now_ns();
	uint32_t found = 0;
	for (uint32_t i = 0; i < count; i++)
		if (boxes[i] && boxes[i]->deadline_ns <= now && is_over(boxes[i]))
			done[found++] = i;
	return found;
}

int sn_batch_wait(int epoll, struct sn_box *const *boxes, uint32_t count, uint32_t *done, int timeout_ms)
{
	struct epoll_event events[EVENTS_AT_ONCE];
	uint64_t until = timeout_ms < 0 ? UINT64_MAX : now_ns() + (uint64_t)timeout_ms * 1000000u;
	for (;;) {
		uint64_t deadline = first_deadline(boxes, count), next = until < deadline ? until : deadline;
		int ready = epoll_wait(epoll, events, EVENTS_AT_ONCE, next == UINT64_MAX ? -1 : left_ms(next));
		if (ready < 0)
			return -errno;
		bool woken = false;
		uint32_t found = 0;
		for (int i = 0; i < ready; i++) {
			uint64_t place = events[i].data.u64;
			if (place < count && boxes[place] && is_over(boxes[place]))
				done[found++] = (uint32_t)place;
			woken = woken || place == WAKE;
		}
		if (!found && !ready)
			found = serve_late(boxes, count, done);
		if (found || woken || now_ns() >= until)
			return (int)found;
	}
}
