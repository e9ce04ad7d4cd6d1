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

static long set(uint32_t resource, uint64_t value, bool keep, bool *kept)
{
	struct rlimit64_raw both = {value, value}, old;
	long result = sys(SYS_prlimit64, 0, resource, &both, NULL);
	if (result == -EPERM && keep && sys(SYS_prlimit64, 0, resource, NULL, &old) == 0) {
		both.soft = both.hard = old.hard;
		result = sys(SYS_prlimit64, 0, resource, &both, NULL);
		*kept = true;
	}
	return result;
}

/* Init's, for the guest to inherit: the filter keeps a guest from changing it. Whether the hard limit stays, since it is lower. */
bool limits_core(const struct plan *plan)
{
	bool kept = false;
	set(RLIMIT_CORE, plan->head->core_bytes, true, &kept);
	return kept;
}

/* Once the guest needs no more descriptors than its own. */
int limits_apply(const struct sn_request *request, bool core_kept, uint64_t *kept, uint32_t *held, struct sn_failure *why)
{
	for (uint32_t i = 0; i < request->rlimit_count; i++) {
		const struct sn_rlimit *limit = &request->rlimits[i];
		bool stays = limit->resource == RLIMIT_CORE && core_kept;
		long result = limit->resource == RLIMIT_CORE ? 0 : set(limit->resource, limit->value, limit->flags & SN_RLIMIT_KEEP, &stays);
		if (result < 0)
			return fail(why, SN_STAGE_RLIMIT, result,
				    limit->resource < sizeof names / sizeof *names ? names[limit->resource] : "unknown");
		*kept |= (uint64_t)stays << i;
	}
	*held |= SN_HELD_RLIMITS;
	return 0;
}
