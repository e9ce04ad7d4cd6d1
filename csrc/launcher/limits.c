/* rlimits of the guest. They are only ever lowered where CAP_SYS_RESOURCE is missing: one that may be kept
 * stays at its hard limit and is named in the report. */

#include "launcher.h"

#include <sys/resource.h>

static const char *const names[] = {
	[RLIMIT_CPU] = "cpu", [RLIMIT_FSIZE] = "fsize", [RLIMIT_DATA] = "data", [RLIMIT_STACK] = "stack",
	[RLIMIT_CORE] = "core", [RLIMIT_RSS] = "rss", [RLIMIT_NPROC] = "nproc", [RLIMIT_NOFILE] = "nofile",
	[RLIMIT_MEMLOCK] = "memlock", [RLIMIT_AS] = "as", [RLIMIT_LOCKS] = "locks", [RLIMIT_SIGPENDING] = "sigpending",
	[RLIMIT_MSGQUEUE] = "msgqueue", [RLIMIT_NICE] = "nice", [RLIMIT_RTPRIO] = "rtprio", [RLIMIT_RTTIME] = "rttime",
};

struct rlimit64_raw {
	uint64_t soft, hard;
};

/* The number of descriptors comes last (`late`): until then the guest's first steps need some of their own. */
int limits_apply(const struct sn_request *request, bool late, uint64_t *kept, uint32_t *held, struct sn_failure *why)
{
	for (uint32_t i = 0; i < request->rlimit_count; i++) {
		const struct sn_rlimit *limit = &request->rlimits[i];
		if ((limit->resource == RLIMIT_NOFILE) != late)
			continue;
		struct rlimit64_raw value = {limit->value, limit->value}, old;
		long result = sys(SYS_prlimit64, 0, limit->resource, &value, NULL);
		if (result == -EPERM && limit->flags & SN_RLIMIT_KEEP && sys(SYS_prlimit64, 0, limit->resource, NULL, &old) == 0) {
			value.soft = value.hard = old.hard;
			result = sys(SYS_prlimit64, 0, limit->resource, &value, NULL);
			*kept |= UINT64_C(1) << i;
		}
		if (result < 0)
			return fail(why, SN_STAGE_RLIMIT, result,
				    limit->resource < sizeof names / sizeof *names ? names[limit->resource] : "unknown");
	}
	*held |= late ? SN_HELD_RLIMITS : 0;
	return 0;
}
