/* The plan's system-call filter. The guest-to-be installs it while it is parked, with a listener that init keeps:
 * what the filter ends does not kill at once but asks the listener, which is how init tells it from a SIGSYS that the guest sent
 * itself, and learns the number. None of the guest's own steps until execve asks.
 *
 * Where refused calls are explained the filter asks for every one, and for those with paths; then the listener goes to the supervisor at
 * once, and nobody of the box keeps it, so that whoever asks gets an answer: the supervisor's, or ENOSYS when it is gone.
 */

#include "launcher.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/ioctl.h>

enum { FLAG_WAIT_KILLABLE_RECV = 32 }; /* Linux 5.19 */

static long install(const struct sn_plan *head, const char *base, unsigned long flags)
{
	struct sock_fprog program = {
		.len = (unsigned short)head->filter_count,
		.filter = (struct sock_filter *)(uintptr_t)(base + head->filter_at),
	};
	return sys(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
}

static int hand_over(int supervisor, int listener, uint32_t *held, struct sn_failure *why)
{
	long sent = channel_send(supervisor, "", 1, &listener, 1);
	sys(SYS_close, listener);
	if (sent < 0)
		return fail(why, SN_STAGE_EXPLAIN, sent, "listener");
	*held |= SN_HELD_LISTENER | SN_HELD_EXPLAIN;
	return 0;
}

/* Once the supervisor has taken a call, a signal that has a handler waits until it is answered. */
static int install_explaining(const struct plan *plan, int supervisor, uint32_t *held, struct sn_failure *why)
{
	if (supervisor < 0)
		return fail(why, SN_STAGE_EXPLAIN, EPROTO, "no supervisor");
	long result = install(plan->head, plan->base, SECCOMP_FILTER_FLAG_NEW_LISTENER | FLAG_WAIT_KILLABLE_RECV);
	if (result == -EINVAL)
		result = install(plan->head, plan->base, SECCOMP_FILTER_FLAG_NEW_LISTENER);
	if (result < 0)
		return fail(why, SN_STAGE_EXPLAIN, result, "filter with a listener");
	*held |= SN_HELD_SECCOMP;
	return hand_over(supervisor, (int)result, held, why);
}

int seccomp_install(const struct plan *plan, int supervisor, int *listener, uint32_t *held, struct sn_failure *why)
{
	const struct sn_plan *head = plan->head;
	if (!head->filter_count)
		return 0;
	if (head->explain_count)
		return install_explaining(plan, supervisor, held, why);
	long result = install(head, plan->base, SECCOMP_FILTER_FLAG_NEW_LISTENER);
	if (result == -EBUSY || result == -EINVAL || is_absent(result)) {
		/* Below somebody else's listener, before Linux 5.0, or refused: the plan's filter kills. */
		result = install(head, plan->base, 0);
	} else if (result >= 0) {
		*listener = (int)result;
		*held |= SN_HELD_LISTENER;
	}
	if (result < 0)
		return fail(why, SN_STAGE_SECCOMP, result, "filter");
	*held |= SN_HELD_SECCOMP;
	return 0;
}

static long read_ending(int supervisor, struct sn_report *report)
{
	struct sn_ending ending;
	unsigned none = 0;
	if (channel_receive(supervisor, &ending, sizeof ending, NULL, 0, NULL, &none) != (long)sizeof ending)
		return -ENOTCONN;
	report->forbidden_nr = ending.nr;
	report->forbidden_arch = ending.arch;
	return 0;
}

/* The call that the filter ends, into the report: 0; 1 for one that was answered; -ENOENT when its process was killed meanwhile; -errno. From the listener, or as the
 * supervisor tells it. */
long seccomp_read(int listener, bool supervised, const struct owned *owned, struct sn_report *report)
{
	union {
		struct seccomp_notif call;
		char room[512]; /* a later kernel's is larger */
	} note = {.room = {0}};
	if (supervised)
		return read_ending(listener, report);
	long result = sys(SYS_ioctl, listener, SECCOMP_IOCTL_NOTIF_RECV, &note);
	if (result < 0)
		return result;
	if (owned && owned_serve(owned, listener, &note.call))
		return 1;
	report->forbidden_nr = note.call.data.nr;
	report->forbidden_arch = note.call.data.arch;
	return 0;
}
