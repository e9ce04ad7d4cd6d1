/* Init: PID 1 of a box. Everything that does not depend on the request is done before anybody asks for the box, which then only
 * has to start its guest.
 *
 * Runs with all capabilities of the box's own user namespace and none of the host's; it is not dumpable, and PID 1
 * takes no signal from its namespace.
 */

#include "launcher.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

/* Without namespaces: whoever's parent dies falls to init, and there is nothing to mount. */
static int bare_enter(struct plan *plan, uint32_t *held, struct sn_failure *why)
{
	long result = sys(SYS_prctl, PR_SET_CHILD_SUBREAPER, 1);
	if (result < 0)
		return fail(why, SN_STAGE_SESSION, result, "subreaper");
	*held |= SN_HELD_SUBREAPER;
	if (sys(SYS_getgroups, 0, NULL) == 0)
		*held |= SN_HELD_NO_GROUPS;
	return creds_prepare(true, held, why) || landlock_prepare(plan, why) ? -1 : 0;
}

static int box_enter(struct plan *plan, uint32_t *held, struct sn_failure *why)
{
	const struct sn_plan *head = plan->head;
	sys(SYS_prctl, PR_SET_DUMPABLE, 1);
	int mapped = userns_map("/proc/self", head->inside_uid, head->inside_uid, head->inside_gid, head->inside_gid, false, why);
	sys(SYS_prctl, PR_SET_DUMPABLE, 0);
	if (mapped)
		return -1;
	if (sys(SYS_getuid) != head->inside_uid || sys(SYS_getgid) != head->inside_gid)
		return fail(why, SN_STAGE_CREDS, EINVAL, "uid in the box");
	*held |= SN_HELD_USER | SN_HELD_MOUNT | SN_HELD_PID | SN_HELD_IPC | SN_HELD_UTS | SN_HELD_ROOT;
	if (sys(SYS_getgroups, 0, NULL) == 0)
		*held |= SN_HELD_NO_GROUPS;
	const struct sn_op *op = (const void *)(plan->base + head->box_at);
	for (plan->late = 0; plan->late < head->box_count && op[plan->late].kind != SN_OP_CHANGES; plan->late++)
		if (mount_box_op(plan, op + plan->late, held, why))
			return -1;
	const char *hostname = plan_text(plan, head->hostname_at);
	long result = hostname ? sys(SYS_sethostname, hostname, strlen(hostname)) : 0;
	if (result < 0)
		return fail(why, SN_STAGE_HOSTNAME, result, hostname);
	sys(SYS_umask, 022);
	return creds_prepare(false, held, why) || landlock_prepare(plan, why) ? -1 : 0;
}

static int box_fill(const struct plan *plan, struct request *request, uint32_t *held, struct sn_failure *why)
{
	if (plan_bare(plan)) /* the host did it */
		return 0;
	/* Before a host directory covers the private workspace: what is resized must be ours. */
	if (request->head.tmp_bytes != plan->head->tmp_bytes && mount_resize(plan, request->head.tmp_bytes, why))
		return -1;
	const char *workspace = plan_text(plan, plan->head->workspace_at);
	if (plan->late < plan->head->box_count || request->head.flags & SN_REQUEST_CHANGES) {
		if (overlay_box(plan, request, held, why))
			return -1;
	} else if (request->workspace >= 0 && (mount_attach(request->workspace, workspace, why) || remount_safe(workspace, why))) {
		return -1;
	}
	if (request_place_files(plan, request, why))
		return -1;
	return request->head.guards ? guard_workspace(plan, request, held, why) : 0;
}

static int child_signals(struct sn_failure *why)
{
	uint64_t mask = UINT64_C(1) << (SIGCHLD - 1);
	long fd = sys(SYS_signalfd4, -1, &mask, sizeof mask, SFD_CLOEXEC | SFD_NONBLOCK);
	return fd < 0 ? fail(why, SN_STAGE_CHANNEL, fd, "signalfd") : (int)fd;
}

static void fill_usage(const struct watch *watch, struct sn_report *report)
{
	const struct gauges *gauges = watch->gauges;
	report->group_peak_bytes = cgroup_peak(gauges);
	report->oom_kills = cgroup_oom_kills(gauges) - watch->oom_before;
	if (!cgroup_has_cpu(gauges))
		return;
	struct usage now = cgroup_usage(gauges);
	uint64_t own = gauges->fd[SN_GAUGE_GROUP] >= 0 ? 0 : clock_ns(CLOCK_PROCESS_CPUTIME_ID) - watch->own_cpu_ns;
	uint64_t used = now.cpu_ns - watch->before.cpu_ns;
	report->cpu_ns = used > own ? used - own : 1;
	report->user_ns = now.user_ns - watch->before.user_ns;
	report->system_ns = now.system_ns - watch->before.system_ns;
}

static int run_guest(const struct plan *plan, const struct gauges *gauges, struct request *request, struct watch *watch,
		     struct sn_report *report)
{
	struct guest guest = {.plan = plan, .request = request, .listener = -1, .cpu_group = -1, .held = report->held};
	if (request->head.flags & SN_REQUEST_CPU_GROUP)
		guest.cpu_group = gauges->fd[SN_GAUGE_CPU_GROUP];
	if ((watch->signals = child_signals(&report->failure)) < 0)
		return -1;
	cgroup_begin(gauges);
	watch->oom_before = cgroup_oom_kills(gauges);
	watch->before = cgroup_has_cpu(gauges) ? cgroup_usage(gauges) : (struct usage){0};
	watch->own_cpu_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
	watch->started_ns = clock_ns(CLOCK_MONOTONIC);
	int failed = guest_start(&guest, gauges->fd[SN_GAUGE_GROUP]);
	report->held = guest.held | (cgroup_has_cpu(gauges) ? SN_HELD_GROUP : 0);
	report->rlimits_kept = guest.rlimits_kept;
	for (int i = 0; i < 3; i++)
		fd_close(&request->stdio[i]);
	if (failed) {
		if (guest.pid > 0)
			sys(SYS_wait4, guest.pid, NULL, __WALL, NULL);
		report->failure = guest.why;
		fill_usage(watch, report);
		return -1;
	}
	watch->main_pid = guest.pid;
	watch->owned = (struct owned){.plan = plan, .directory = {request->workspace, request->upper}};
	watch->supervised = request->supervisor >= 0;
	watch->listener = watch->supervised ? request->supervisor : guest.listener;
	if (!watch_run(watch))
		sys(SYS_exit_group, 0); /* the host is gone; the kernel ends what is left with us */
	fill_usage(watch, report);
	return 0;
}

/* The box is ours now: the host gets a pidfd of init, and what holds so far. */
static void say_started(int channel, const struct sn_report *report)
{
	struct sn_report started = *report;
	started.kind = SN_REPORT_STARTED;
	owned_fd self = (int)sys(NR_pidfd_open, sys(SYS_getpid), 0);
	channel_report(channel, &started, self);
}

void init_main(struct plan *plan, const struct gauges *gauges, int control, uint32_t held)
{
	static struct request request;
	struct sn_report report = {.version = SN_WIRE_VERSION, .kind = SN_REPORT_ENDED, .held = held};
	struct watch watch = {.request = &request.head, .gauges = gauges, .listener = -1, .report = &report, .bare = plan_bare(plan)};
	sys(SYS_prctl, PR_SET_TIMERSLACK, 1);
	int failed = (plan_bare(plan) ? bare_enter : box_enter)(plan, &report.held, &report.failure);
	watch.channel = channel_for_box(control);
	if (watch.channel < 0)
		sys(SYS_exit_group, INIT_UNUSED);
	sys(SYS_close, control);
	if (!failed)
		say_started(watch.channel, &report);
	if (failed || request_receive(watch.channel, &request, &report.failure) || box_fill(plan, &request, &report.held, &report.failure) ||
	    landlock_complete(plan, &request, &report.failure) || run_guest(plan, gauges, &request, &watch, &report))
		report.kind = SN_REPORT_FAILED;
	int workspace = -1;
	if (report.kind == SN_REPORT_ENDED && request.head.flags & SN_REQUEST_COLLECT)
		workspace = (int)sys(SYS_openat, AT_FDCWD, plan_text(plan, plan->head->workspace_at), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (report.kind == SN_REPORT_ENDED && request.head.flags & SN_REQUEST_CHANGES)
		channel_report(watch.channel, &(struct sn_report){.version = SN_WIRE_VERSION, .kind = SN_REPORT_CHANGES}, request.changes);
	channel_report(watch.channel, &report, workspace);
	sys(SYS_exit_group, 0);
	__builtin_unreachable();
}
