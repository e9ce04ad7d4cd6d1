/* Overlays. In the template: a directory of the host, read-only, so that no Unix socket in it can be connected to. In a box: a
 * directory whose changes are kept apart from it, in N/upper of the directory of changes.
 *
 * The lower layer is the current directory while an overlay is made: what was compared is what is shown whatever it is called, and
 * the options, which the guest reads in its mountinfo, name no path of the host's. An overlay is made at a place of
 * ours and then moved onto a descriptor of its target, so that no link on the way leads it elsewhere.
 */

#include "launcher.h"

#include <sys/mount.h>
#include <sys/stat.h>

enum { SAFE = MS_NOSUID | MS_NODEV };

/* The top of an overlay at `place`, on which it lies until it is moved. */
static int make(int lower, const char *place, unsigned long flags, const char *options, const char *target, struct sn_failure *why)
{
	long result = sys(SYS_fchdir, lower);
	if (result >= 0) {
		result = sys(SYS_mount, "overlay", place, "overlay", flags, options);
		sys(SYS_chdir, "/");
	}
	if (result >= 0)
		result = sys(SYS_openat, AT_FDCWD, place, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return result < 0 ? fail(why, SN_STAGE_OVERLAY, result, target) : (int)result;
}

/* Kernels ask for two layers where nothing can be written: the second is an empty directory. */
int overlay_of_host(const struct plan *plan, int old, const struct sn_op *op, struct sn_failure *why)
{
	static const char place[] = "/layer", nothing[] = "/none";
	const char *target = plan_text(plan, op->target);
	owned_fd lower = (int)mount_source(old, plan_text(plan, op->source), op->device, op->inode);
	if (lower == -ENOENT && op->flags & SN_OP_OPTIONAL)
		return MOUNT_ABSENT;
	if (lower < 0)
		return fail(why, SN_STAGE_OVERLAY, lower, target);
	sys(SYS_mkdirat, AT_FDCWD, place, 0700);
	sys(SYS_mkdirat, AT_FDCWD, nothing, 0755);
	return make(lower, place, mount_classic_flags(op->flags), "redirect_dir=nofollow,metacopy=off,lowerdir=.:/none", target, why);
}

/* N, N/upper and N/work. What is merged has the owner and mode of its upper directory, so that gets those of the lower one. */
static int make_directories(int changes, int lower, uint32_t number, const char *target, struct sn_failure *why)
{
	static const char *const tails[] = {"", "/work", "/upper"};
	struct stat shown;
	char name[32];
	long result = fstat(lower, &shown) ? -errno : 0;
	for (unsigned i = 0; i < 3 && (result >= 0 || result == -EEXIST); i++) {
		*name = 0;
		text_add_number(name, sizeof name, number);
		text_add(name, sizeof name, tails[i]);
		result = sys(SYS_mkdirat, changes, name, 0700);
	}
	if (result >= 0 || result == -EEXIST)
		result = sys(SYS_fchmodat, changes, name, shown.st_mode & 07777);
	return result < 0 ? fail(why, SN_STAGE_OVERLAY, result, target) : 0;
}

struct box {
	const struct plan *plan;
	const char *changes_at;
	int changes; /* the directory's descriptor */
	struct sn_failure *why;
};

static void add_layer(char *options, size_t size, const char *name, const char *changes_at, uint32_t number, const char *tail)
{
	text_add(options, size, name);
	text_add(options, size, changes_at);
	text_add(options, size, "/");
	text_add_number(options, size, number);
	text_add(options, size, tail);
}

/* `lower` with its changes in number/upper, at `target`. Volatile: the kernel would otherwise write out the whole file system that holds the
 * changes after every run, and for a guest that asks for it; whoever commits them sees to that they last. */
static int cover(const struct box *box, int lower, uint32_t number, unsigned long flags, const char *target)
{
	char options[1024] = "volatile,index=off,userxattr,lowerdir=.";
	if (make_directories(box->changes, lower, number, target, box->why))
		return -1;
	add_layer(options, sizeof options, ",upperdir=", box->changes_at, number, "/upper");
	add_layer(options, sizeof options, ",workdir=", box->changes_at, number, "/work");
	owned_fd overlay = make(lower, box->changes_at, flags, options, target, box->why);
	if (overlay < 0)
		return -1;
	owned_fd point = (int)mount_exactly(target);
	long result = point < 0 ? point : mount_move(overlay, point);
	return result < 0 ? fail(box->why, SN_STAGE_OVERLAY, result, target) : 0;
}

static int late_changes(const struct box *box, const struct sn_op *op)
{
	const char *target = plan_text(box->plan, op->target);
	owned_fd lower = (int)mount_exactly(plan_text(box->plan, op->source));
	if (lower < 0)
		return fail(box->why, SN_STAGE_OVERLAY, lower, target);
	if (mount_target(target, true, box->why)) {
		box->why->stage = SN_STAGE_OVERLAY;
		return -1;
	}
	return cover(box, lower, op->mode, mount_classic_flags(op->flags), target);
}

static int late_ops(const struct box *box, uint32_t *held)
{
	const struct plan *plan = box->plan;
	const struct sn_op *op = (const void *)(plan->base + plan->head->box_at);
	for (uint32_t i = plan->late; i < plan->head->box_count; i++) {
		bool file_system = op[i].kind == SN_OP_TMPFS || op[i].kind == SN_OP_PROC;
		if (file_system)
			return fail(box->why, SN_STAGE_PLAN, EINVAL, plan_text(plan, op[i].target));
		if (op[i].kind == SN_OP_CHANGES ? late_changes(box, op + i) : mount_box_op(plan, op + i, held, box->why))
			return -1;
	}
	return 0;
}

/* The directory of changes, on top of what lies at `at`. */
static int open_changes(const struct plan *plan, const struct request *request, const char *at, struct sn_failure *why)
{
	if (request->upper >= 0 && (mount_attach(request->upper, at, why) || remount_safe(at, why))) {
		why->stage = SN_STAGE_OVERLAY;
		return -1;
	}
	if (request->upper < 0 && mount_like_workspace(plan, at, request->head.tmp_bytes, why))
		return -1;
	long fd = sys(SYS_openat, AT_FDCWD, at, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? fail(why, SN_STAGE_OVERLAY, fd, at) : (int)fd;
}

/* The workspace first lies, where it is a lower layer, beneath the directory of changes; both are unmounted at the end, so that no path leads to
 * either. Descriptors of both stay: the first to compare guards with, the second for the host. */
int overlay_box(const struct plan *plan, struct request *request, uint32_t *held, struct sn_failure *why)
{
	const char *at = plan_text(plan, plan->head->changes_at), *workspace = plan_text(plan, plan->head->workspace_at);
	bool merged = request->workspace >= 0 && request->head.flags & SN_REQUEST_CHANGES;
	const char *attached = merged ? at : workspace;
	if (!at)
		return fail(why, SN_STAGE_PLAN, EINVAL, "directory of changes");
	if (request->workspace >= 0 && (mount_attach(request->workspace, attached, why) || remount_safe(attached, why)))
		return -1;
	struct box box = {.plan = plan, .changes_at = at, .changes = open_changes(plan, request, at, why), .why = why};
	if (box.changes < 0)
		return -1;
	request->changes = box.changes;
	if ((merged && cover(&box, request->workspace, 0, SAFE, workspace)) || late_ops(&box, held))
		return -1;
	for (int layers = merged ? 2 : 1; layers > 0; layers--) {
		long result = sys(SYS_umount2, at, MNT_DETACH);
		if (result < 0)
			return fail(why, SN_STAGE_OVERLAY, result, at);
	}
	*held |= SN_HELD_CHANGES;
	return 0;
}
