/* Guards: protected paths bound onto themselves, so that neither they nor what leads to them can be renamed or removed, and read-only ones
 * cannot be written; hidden ones are covered by something empty.
 *
 * Run by init while the guest-to-be waits. Names are opened without following a link, and what is bound is what
 * was opened and compared.
 */

#include "launcher.h"

#include <linux/mount.h>
#include <linux/openat2.h>
#include <sys/stat.h>

#ifndef OPEN_TREE_CLONE
#define OPEN_TREE_CLONE 1
#endif
#define TREE_RECURSIVE 0x8000 /* AT_RECURSIVE */

static const struct open_how beneath = {
	.flags = O_PATH | O_NOFOLLOW | O_CLOEXEC,
	.resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | RESOLVE_BENEATH,
};

static bool is_link(int fd)
{
	struct stat found;
	return !fstat(fd, &found) && S_ISLNK(found.st_mode);
}

/* `path` leads to `point`: before Linux 5.12 flags are set by it, once the tree is attached. A link needs none. */
static int hold(int point, uint32_t flags, const char *path, const char *item, struct sn_failure *why)
{
	owned_fd tree = (int)sys(NR_open_tree, point, "", OPEN_TREE_CLONE | O_CLOEXEC | AT_EMPTY_PATH | TREE_RECURSIVE);
	if (tree < 0)
		return fail(why, SN_STAGE_GUARD, tree, item);
	long set = mount_set_flags(tree, flags);
	long result = set < 0 && !is_absent(set) ? set : mount_move(tree, point);
	if (result < 0)
		return fail(why, SN_STAGE_GUARD, result, item);
	if (is_absent(set) && !is_link(point) && remount_tree("/proc/self/mountinfo", path, mount_classic_flags(flags), true, why)) {
		why->stage = SN_STAGE_GUARD;
		return -1;
	}
	return 0;
}

static int cover(int point, const char *item, struct sn_failure *why)
{
	struct stat found;
	if (fstat(point, &found))
		return fail(why, SN_STAGE_GUARD, errno, item);
	const char *nothing = S_ISDIR(found.st_mode) ? "/.empty/dir" : "/.empty/file";
	owned_fd tree = (int)sys(NR_open_tree, AT_FDCWD, nothing, OPEN_TREE_CLONE | O_CLOEXEC);
	long result = tree < 0 ? tree : mount_move(tree, point);
	return result < 0 ? fail(why, SN_STAGE_GUARD, result, item) : 0;
}

int guard_op(const struct plan *plan, const struct sn_op *op, struct sn_failure *why)
{
	const char *target = plan_text(plan, op->target);
	owned_fd point = (int)mount_exactly(target);
	if (point == -ENOENT)
		return 0;
	if (point < 0)
		return fail(why, SN_STAGE_GUARD, point, target);
	return hold(point, op->flags, target, target, why);
}

/* `lower`: the directory that the host sent, where an overlay with numbers of its own lies on it, else -1. */
static int compare(int point, int lower, const char *name, const struct sn_guard *guard, struct sn_failure *why)
{
	if (!guard->device && !guard->inode)
		return 0;
	owned_fd below = lower < 0 ? -1 : (int)sys(NR_openat2, lower, name, &beneath, sizeof beneath);
	if (lower >= 0 && below < 0)
		return fail(why, SN_STAGE_GUARD, below, name);
	bool same = mount_is_same(lower < 0 ? point : below, guard->device, guard->inode);
	return same ? 0 : fail(why, SN_STAGE_GUARD, ESTALE, name);
}

static int guard_one(const char *workspace, int lower, const struct sn_guard *guard, struct sn_failure *why)
{
	const char *name = request_guard_name(guard);
	owned_fd root = (int)sys(SYS_openat, AT_FDCWD, workspace, O_PATH | O_DIRECTORY | O_CLOEXEC); /* anew: its own guard covers it */
	owned_fd point = root < 0 ? root : (int)sys(NR_openat2, root, name, &beneath, sizeof beneath);
	if (point < 0)
		return fail(why, SN_STAGE_GUARD, point, name);
	if (compare(point, lower, name, guard, why))
		return -1;
	if (guard->flags & SN_GUARD_MASK)
		return cover(point, name, why);
	char path[4096] = "";
	text_add(path, sizeof path, workspace);
	if (strcmp(name, ".")) {
		text_add(path, sizeof path, "/");
		text_add(path, sizeof path, name);
	}
	return hold(point, guard->flags & SN_GUARD_RDONLY ? SN_OP_RDONLY : 0, path, name, why);
}

int guard_workspace(const struct plan *plan, const struct request *request, uint32_t *held, struct sn_failure *why)
{
	const struct sn_guard *guard = request->guard_records;
	int lower = request->head.flags & SN_REQUEST_CHANGES ? request->workspace : -1;
	for (uint32_t i = 0; i < request->head.guards; i++, guard = request_guard_after(guard))
		if (guard_one(plan_text(plan, plan->head->workspace_at), lower, guard, why))
			return -1;
	*held |= SN_HELD_GUARDS;
	return 0;
}
