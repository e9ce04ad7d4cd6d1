/* Init: PID 1 of a box. Everything that does not depend on the request is done before anybody asks for the box, which then only
 * has to start its guest.
 *
 * Runs with all capabilities of the box's own user namespace and none of the host's; it is not dumpable, and PID 1
 * takes no signal from its namespace.
 */

#include "launcher.h"

#include <signal.h>
#include <sys/mman.h>
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
	if (plan_warm(plan)) {
		if (netns_fresh(why))
			return -1;
		*held |= SN_HELD_NET;
	}
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

/* The figures that stood before the run. */
static void watch_baseline(const struct guest *guest, struct watch *watch)
{
	watch->before = cgroup_has_cpu(guest->gauges) ? cgroup_usage(guest->gauges) : (struct usage){0};
	watch->own_cpu_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
}

/* What the guest may not do itself: it waits meanwhile. */
static void fill_box(struct guest *guest, struct watch *watch)
{
	if (!request_show(guest->plan, guest->request, &guest->why) &&
	    !box_fill(guest->plan, guest->request, &guest->held, &guest->why))
		landlock_complete(guest->plan, guest->request, &guest->why);
	request_hide(guest->plan, guest->request);
	guest->ruleset = guest->plan->ruleset;
	watch_baseline(guest, watch); /* what was done so far is not the guest's work */
	guest_give_turn(guest, GUEST_ASKS, GUEST_GOES_ON);
}

/* From the guest's clone to its execve: its first steps, then, parked, whatever figures stood before the run, then its wait for the
 * request. */
static int serve_guest(struct guest *guest, struct watch *watch)
{
	const struct gauges *gauges = guest->gauges;
	if (guest_park(guest, gauges->fd[SN_GAUGE_GROUP]))
		return -1;
	sys(SYS_prctl, PR_SET_TIMERSLACK, 1); /* init's own: the guest has what any program has */
	/* A guest-to-be that somebody has stopped hears nothing, and init waits for it: both go with the slot, as long as nobody has
	 * called. */
	sys(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL);
	uint32_t turn = guest_await(guest, GUEST_PREPARES);
	while (turn != GUEST_GONE) {
		if (turn == GUEST_PARKED) {
			watch->oom_before = cgroup_oom_kills(gauges);
			watch_baseline(guest, watch);
			guest_give_turn(guest, GUEST_PARKED, GUEST_WAITS);
			turn = guest_await(guest, GUEST_WAITS);
		} else if (turn == GUEST_ASKS) {
			fill_box(guest, watch);
			turn = guest_await(guest, GUEST_GOES_ON);
		}
	}
	sys(SYS_prctl, PR_SET_PDEATHSIG, 0);
	if (guest->called && !guest->why.stage && !guest->went)
		fail(&guest->why, SN_STAGE_LOST, ECHILD, "guest");
	return guest->why.stage ? -1 : 0;
}

/* The box could not be made, or its guest could not: whoever wants it is told. */
static void refuse(int control, const struct sn_failure *why)
{
	struct sn_report report = {.version = SN_WIRE_VERSION, .kind = SN_REPORT_FAILED, .failure = *why};
	owned_fd channel = channel_for_box(control);
	if (channel < 0)
		sys(SYS_exit_group, INIT_UNUSED);
	channel_report(channel, &report, -1);
	sys(SYS_exit_group, 0);
}

static void close_given(struct request *request)
{
	for (int i = 0; i < 3; i++)
		fd_close(&request->stdio[i]);
}

static void send_end(const struct guest *guest, const struct sn_report *report)
{
	const struct sn_request *head = &guest->request->head;
	int workspace = -1;
	if (report->kind == SN_REPORT_ENDED && head->flags & SN_REQUEST_COLLECT)
		workspace = (int)sys(SYS_openat, AT_FDCWD, plan_text(guest->plan, guest->plan->head->workspace_at),
				     O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (report->kind == SN_REPORT_ENDED && head->flags & SN_REQUEST_CHANGES)
		channel_report(guest->request->channel, &(struct sn_report){.version = SN_WIRE_VERSION, .kind = SN_REPORT_CHANGES},
			       guest->request->changes);
	channel_report(guest->request->channel, report, workspace);
}

static void run(struct guest *guest, struct watch *watch)
{
	struct sn_report *report = watch->report;
	struct request *request = guest->request;
	int failed = serve_guest(guest, watch);
	if (!guest->called) {
		if (guest->why.stage)
			refuse(guest->control, &guest->why);
		sys(SYS_exit_group, INIT_UNUSED);
	}
	sys(SYS_close, guest->control);
	close_given(request);
	report->held = guest->held | (cgroup_has_cpu(guest->gauges) ? SN_HELD_GROUP : 0);
	report->rlimits_kept = guest->rlimits_kept;
	watch->channel = request->channel;
	watch->main_pid = guest->pid;
	watch->started_ns = guest->started_ns;
	if (guest->before.cpu_ns)
		watch->before = guest->before;
	watch->owned = (struct owned){.plan = guest->plan, .directory = {request->workspace, request->upper}};
	watch->supervised = request->supervisor >= 0;
	watch->listener = watch->supervised ? request->supervisor : guest->listener;
	if (failed) {
		report->kind = SN_REPORT_FAILED;
		report->failure = guest->why;
		sys(SYS_wait4, guest->pid, NULL, __WALL, NULL);
	} else if (!watch_run(watch)) {
		sys(SYS_exit_group, 0); /* the host is gone; the kernel ends what is left with us */
	}
	fill_usage(watch, report);
	send_end(guest, report);
	sys(SYS_exit_group, 0);
}

static struct parked *shared_memory(const struct plan *plan, struct sn_failure *why)
{
	static struct parked own, *parked;
	if (!plan_warm(plan))
		return &own;
	if (parked) /* the last box's: a slot's inits run in the same memory, one after the other */
		sys(SYS_munmap, parked, sizeof *parked);
	long at = sys(SYS_mmap, NULL, sizeof *parked, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (at < 0 && at > -4096) {
		fail(why, SN_STAGE_CLONE, at, "shared memory");
		return NULL;
	}
	return parked = (struct parked *)at;
}

void init_main(struct plan *plan, const struct gauges *gauges, int control, uint32_t held)
{
	struct sn_failure why = {0};
	plan->ruleset = -1;
	struct parked *parked = shared_memory(plan, &why);
	if (!parked)
		refuse(control, &why);
	struct guest *guest = &parked->guest;
	struct request *request = &parked->request;
	struct sn_report report = {.version = SN_WIRE_VERSION, .kind = SN_REPORT_ENDED};
	struct watch watch = {.request = &request->head, .gauges = gauges, .listener = -1, .report = &report, .bare = plan_bare(plan)};
	*guest = (struct guest){.plan = plan, .gauges = gauges, .request = request, .control = control, .listener = -1, .held = held};
	request->channel = -1;
	if ((plan_bare(plan) ? bare_enter : box_enter)(plan, &guest->held, &guest->why) || (watch.signals = child_signals(&guest->why)) < 0)
		refuse(control, &guest->why);
	guest->pidfd = (int)sys(NR_pidfd_open, sys(SYS_getpid), 0);
	guest->core_kept = limits_core(plan);
	run(guest, &watch);
	__builtin_unreachable();
}
