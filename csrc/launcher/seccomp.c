/* The plan's system-call filter. The guest's first steps install it last, with a listener that init keeps:
 * what the filter ends does not kill at once but asks the listener, which is how init tells it from a SIGSYS that the guest sent
 * itself, and learns the number. No call between installation and execve asks, so init (asleep until execve) is never waited for.
 */

#include "launcher.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/ioctl.h>

int seccomp_install(const struct plan *plan, int *listener, uint32_t *held, struct sn_failure *why)
{
	const struct sn_plan *head = plan->head;
	if (!head->filter_count)
		return 0;
	struct sock_fprog program = {
		.len = (unsigned short)head->filter_count,
		.filter = (struct sock_filter *)(uintptr_t)(plan->base + head->filter_at),
	};
	long result = sys(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &program);
	if (result == -EBUSY || result == -EINVAL) { /* below somebody else's listener, or before Linux 5.0: the plan's filter kills */
		result = sys(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program);
	} else if (result >= 0) {
		*listener = (int)result;
		*held |= SN_HELD_LISTENER;
	}
	if (result < 0)
		return fail(why, SN_STAGE_SECCOMP, result, "filter");
	*held |= SN_HELD_SECCOMP;
	return 0;
}

/* The call that the filter ends, into the report: 0; -ENOENT when its process was killed meanwhile; -errno. */
long seccomp_read(int listener, struct sn_report *report)
{
	union {
		struct seccomp_notif call;
		char room[512]; /* a later kernel's is larger */
	} note = {.room = {0}};
	long result = sys(SYS_ioctl, listener, SECCOMP_IOCTL_NOTIF_RECV, &note);
	if (result < 0)
		return result;
	report->forbidden_nr = note.call.data.nr;
	report->forbidden_arch = note.call.data.arch;
	return 0;
}
