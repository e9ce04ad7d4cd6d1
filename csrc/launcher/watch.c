/* Init's watch over one run: the deadline, the CPU budget, the OOM event, the filter's listener, the host's word and every child's end, in
 * one ppoll. Ends the tree (tree.c) and leaves the figures in the report.
 */

#include "launcher.h"

#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

enum { MS = 1000000 };
enum { CPU_STEP_NS = MS / 2, SAMPLE_FIRST_NS = 2 * MS, SAMPLE_MOST_NS = 20 * MS, OOM_STEP_NS = MS, OOM_CHECKS = 50 };
enum { LOOK_SHARE = 4 };

struct state {
	struct watch *watch;
	uint64_t cpu_at, sample_at, oom_at; /* when to look next; UINT64_MAX: never */
	uint64_t sample_step;
	int oom_checks;
	uint32_t reaped;
	bool main_ended, tree_ended;
};

uint64_t clock_ns(int clock)
{
	struct timespec now = {0};
	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static uint64_t earliest(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t deadline_of(const struct watch *watch)
{
	return watch->started_ns + watch->request->wall_ns;
}

/* When to look again: a look at many processes takes long, and init is to spend no more than a fifth of a core on looking. */
static uint64_t look_again(uint64_t spent_before, uint64_t step)
{
	uint64_t pause = LOOK_SHARE * (clock_ns(CLOCK_PROCESS_CPUTIME_ID) - spent_before);
	return clock_ns(CLOCK_MONOTONIC) + (pause > step ? pause : step);
}

static uint64_t timeval_ns(struct timeval value)
{
	return (uint64_t)value.tv_sec * 1000000000 + (uint64_t)value.tv_usec * 1000;
}

static void account(struct sn_report *report, const struct rusage *used)
{
	report->rusage_user_ns += timeval_ns(used->ru_utime);
	report->rusage_system_ns += timeval_ns(used->ru_stime);
	report->voluntary_switches += (uint64_t)used->ru_nvcsw;
	report->involuntary_switches += (uint64_t)used->ru_nivcsw;
	if ((uint64_t)used->ru_maxrss * 1024 > report->maxrss_bytes)
		report->maxrss_bytes = (uint64_t)used->ru_maxrss * 1024;
}

/* Reaps what has ended; with `all`, waits until no child is left. How many of them SIGKILL did not end. */
static uint32_t reap(struct state *state, bool all)
{
	struct watch *watch = state->watch;
	struct rusage used;
	int status;
	uint32_t otherwise = 0;
	long pid;
	while ((pid = sys(SYS_wait4, -1, &status, __WALL | (all ? 0 : WNOHANG), &used)) > 0) {
		account(watch->report, &used);
		state->reaped++;
		if (pid == watch->main_pid) {
			watch->report->wait_status = status;
			state->main_ended = true;
		}
		otherwise += !WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL;
	}
	return otherwise;
}

static uint64_t reaped_cpu(const struct sn_report *report)
{
	return report->rusage_user_ns + report->rusage_system_ns;
}

/* CPU of the tree so far: the group's, less what init itself used in it; or by a look at it, which ends at a time. */
static uint64_t cpu_used(const struct watch *watch, uint64_t until)
{
	if (!cgroup_has_cpu(watch->gauges))
		return sample_tree(watch->bare, until).cpu_ns + reaped_cpu(watch->report);
	uint64_t used = cgroup_usage(watch->gauges).cpu_ns - watch->before.cpu_ns;
	uint64_t own = watch->gauges->fd[SN_GAUGE_GROUP] >= 0 ? 0 : clock_ns(CLOCK_PROCESS_CPUTIME_ID) - watch->own_cpu_ns;
	return used > own ? used - own : 0;
}

/* Without a group: a child that is reaped while we look may be seen twice, so the lower of two looks is the truth, and is kept: the
 * time of children whose parent ignores SIGCHLD is gone when they are. */
static uint64_t cpu_sampled(const struct watch *watch, uint64_t until)
{
	uint64_t first = cpu_used(watch, until), used = earliest(first, cpu_used(watch, until));
	if (used > watch->report->cpu_ns)
		watch->report->cpu_ns = used;
	return used;
}

/* Those alive in a pid namespace are counted before: the children of a guest that ignores SIGCHLD vanish without a word. Zombies are in that
 * count and fall to init, which sees how they really ended. Without a namespace all come to init. */
static void end_tree(struct state *state, uint32_t ended_by)
{
	struct sn_report *report = state->watch->report;
	report->ended_by = ended_by;
	report->wall_ns = clock_ns(CLOCK_MONOTONIC) - state->watch->started_ns;
	bool bare = state->watch->bare;
	if (!tree_is_empty(bare)) {
		if (!bare && !cgroup_has_cpu(state->watch->gauges))
			cpu_sampled(state->watch, UINT64_MAX);
		uint32_t there = bare ? 0 : sample_processes(bare), before = state->reaped;
		tree_kill(bare);
		uint32_t otherwise = reap(state, true);
		there = there ? there : state->reaped - before; /* or no /proc to see them in: those that came to init */
		report->killed = there > otherwise ? there - otherwise : 0;
	} else {
		reap(state, true);
	}
	if (!cgroup_has_cpu(state->watch->gauges) && reaped_cpu(report) > report->cpu_ns)
		report->cpu_ns = reaped_cpu(report);
	state->tree_ended = true;
}

/* Sleeps as long as the rest of the budget must last when every core is used. */
static void check_cpu(struct state *state)
{
	const struct sn_request *request = state->watch->request;
	uint64_t spent = clock_ns(CLOCK_PROCESS_CPUTIME_ID), until = deadline_of(state->watch);
	uint64_t used = cpu_used(state->watch, until);
	if (used >= request->cpu_ns && !cgroup_has_cpu(state->watch->gauges))
		used = cpu_sampled(state->watch, until);
	if (used >= request->cpu_ns) {
		end_tree(state, SN_BY_CPU);
		return;
	}
	uint64_t rest = (request->cpu_ns - used) / (request->cpus ? request->cpus : 1);
	state->cpu_at = look_again(spent, rest > CPU_STEP_NS ? rest : CPU_STEP_NS);
}

static void record_sample(struct sn_report *report, uint64_t memory, uint64_t processes)
{
	if (processes > report->peak_processes)
		report->peak_processes = (uint32_t)processes;
	if (processes > 1 && memory > report->sampled_bytes)
		report->sampled_bytes = memory;
}

/* With a group: only for the peak. Without: also the memory limit, looked at more often the nearer it is. */
static void check_sample(struct state *state)
{
	struct watch *watch = state->watch;
	const struct sn_request *request = watch->request;
	uint64_t step = state->sample_step, spent = clock_ns(CLOCK_PROCESS_CPUTIME_ID), until = deadline_of(watch);
	if (request->flags & SN_REQUEST_SAMPLE) {
		struct sampled sum = sample_tree(watch->bare, until);
		if (request->memory_bytes && sum.memory_bytes > request->memory_bytes && sum.processes > 1) {
			uint64_t once = sample_shared_once(watch->bare, until);
			sum.memory_bytes = once ? once : sum.memory_bytes;
		}
		record_sample(watch->report, sum.memory_bytes, sum.processes);
		if (request->memory_bytes && sum.memory_bytes > request->memory_bytes) {
			watch->report->sampled_bytes = sum.memory_bytes;
			end_tree(state, SN_BY_MEMORY);
			return;
		}
		uint64_t room = request->memory_bytes - sum.memory_bytes;
		if (request->memory_bytes && room / 8 < step) /* 8 bytes a nanosecond: faster than memory can be touched */
			step = room / 8 > MS ? room / 8 : MS;
	} else {
		uint64_t processes = cgroup_processes(watch->gauges);
		record_sample(watch->report, processes > 1 ? cgroup_memory(watch->gauges) : 0, processes);
	}
	state->sample_at = look_again(spent, step);
	if (state->sample_step < SAMPLE_MOST_NS)
		state->sample_step *= 2;
}

/* The event comes before the kill that it announces, so the count is read again for a while. */
static void check_oom(struct state *state, uint64_t now)
{
	struct watch *watch = state->watch;
	if (cgroup_oom_kills(watch->gauges) > watch->oom_before)
		end_tree(state, SN_BY_MEMORY);
	else
		state->oom_at = --state->oom_checks > 0 ? now + OOM_STEP_NS : UINT64_MAX;
}

static void start_oom_checks(struct state *state, struct pollfd *event, uint64_t now)
{
	uint64_t count;
	if (state->watch->gauges->fd[SN_GAUGE_OOM_EVENT] >= 0)
		sys(SYS_read, event->fd, &count, sizeof count);
	state->oom_checks = OOM_CHECKS;
	check_oom(state, now);
}

/* false: the host is gone. */
static bool hear_host(struct state *state)
{
	uint32_t verb = 0;
	unsigned none = 0;
	if (channel_receive(state->watch->channel, &verb, sizeof verb, NULL, 0, NULL, &none) != (long)sizeof verb) {
		if (state->watch->bare) /* else the kernel ends whom init leaves */
			end_tree(state, SN_BY_CANCEL);
		return false;
	}
	end_tree(state, verb == SN_END_OUTPUT ? SN_BY_OUTPUT : SN_BY_CANCEL);
	return true;
}

static void hear_children(struct state *state)
{
	char drained[512];
	sys(SYS_read, state->watch->signals, drained, sizeof drained);
	reap(state, false);
	if (!state->main_ended)
		return;
	bool oom = cgroup_oom_kills(state->watch->gauges) > state->watch->oom_before;
	end_tree(state, oom ? SN_BY_MEMORY : SN_BY_EXIT);
}

static long read_filter(int listener, const struct watch *watch)
{
	return seccomp_read(listener, watch->supervised, watch->bare ? &watch->owned : NULL, watch->report);
}

static void hear_filter(struct state *state, struct pollfd *listener)
{
	long result = listener->revents & POLLIN ? read_filter(listener->fd, state->watch) : -ENOTCONN;
	if (!result)
		end_tree(state, SN_BY_FILTER);
	else if (result < 0 && result != -ENOENT && result != -EINTR)
		listener->fd = -1; /* nobody has the filter any more; a caller that cannot be heard stays blocked until a limit ends it */
}

static void check_clocks(struct state *state, uint64_t deadline)
{
	uint64_t now = clock_ns(CLOCK_MONOTONIC);
	if (now >= deadline)
		end_tree(state, SN_BY_WALL);
	if (!state->tree_ended && now >= state->cpu_at)
		check_cpu(state);
	if (!state->tree_ended && now >= state->oom_at)
		check_oom(state, now);
	if (!state->tree_ended && now >= state->sample_at)
		check_sample(state);
}

bool watch_run(struct watch *watch)
{
	const struct gauges *gauges = watch->gauges;
	bool v1_event = gauges->fd[SN_GAUGE_OOM_EVENT] >= 0;
	uint64_t now = watch->started_ns, deadline = deadline_of(watch);
	struct state state = {
		.watch = watch,
		.cpu_at = watch->request->cpu_ns ? now + CPU_STEP_NS : UINT64_MAX,
		.sample_at = now + SAMPLE_FIRST_NS,
		.sample_step = SAMPLE_FIRST_NS,
		.oom_at = UINT64_MAX,
	};
	struct pollfd fds[] = {
		{.fd = watch->channel, .events = POLLIN},
		{.fd = watch->signals, .events = POLLIN},
		{.fd = watch->listener, .events = POLLIN},
		{.fd = v1_event ? gauges->fd[SN_GAUGE_OOM_EVENT] : gauges->fd[SN_GAUGE_MEMORY_EVENTS],
		 .events = v1_event ? POLLIN : POLLPRI},
	};
	watch->report->peak_processes = 1;
	while (!state.tree_ended) {
		now = clock_ns(CLOCK_MONOTONIC);
		uint64_t next = earliest(earliest(deadline, state.cpu_at), earliest(state.sample_at, state.oom_at));
		uint64_t rest = next > now ? next - now : 0;
		struct timespec timeout = {.tv_sec = (time_t)(rest / 1000000000), .tv_nsec = (long)(rest % 1000000000)};
		long ready = sys(SYS_ppoll, fds, 4, &timeout, NULL, 8);
		if (ready > 0 && fds[2].revents)
			hear_filter(&state, &fds[2]);
		if (ready > 0 && !state.tree_ended && fds[0].revents && !hear_host(&state))
			return false;
		if (ready > 0 && !state.tree_ended && fds[1].revents)
			hear_children(&state);
		if (ready > 0 && !state.tree_ended && fds[3].revents)
			start_oom_checks(&state, &fds[3], clock_ns(CLOCK_MONOTONIC));
		if (!state.tree_ended)
			check_clocks(&state, deadline);
	}
	return true;
}
