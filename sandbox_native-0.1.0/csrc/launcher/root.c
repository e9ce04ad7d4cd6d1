/* Builds the root that every box of a plan has a copy of. Run once by the template, with the host's privileges when it is
 * root, else inside the launcher's user namespace.
 *
 * The host's tree is first set aside at /old below a scratch root, so that a mount over some directory never hides a source. At
 * the end the new root takes the scratch root's place and everything else is unmounted: no path leads back.
 */

#include "launcher.h"

#include <linux/mount.h>
#include <linux/openat2.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>

struct root {
	struct plan *plan;
	int new, old; /* O_PATH of both trees' tops */
	uint64_t device; /* of the new tree's own file system */
	bool old_kernel; /* no mount_setattr */
};

static long open_beneath(int root, const char *path, uint64_t flags)
{
	struct open_how how = {.flags = flags | O_CLOEXEC, .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS};
	return sys(NR_openat2, root, path, &how, sizeof how);
}

/* Whether what is made in `directory` is ours: below what is bound it would be the host's. */
static bool is_ours(const struct root *root, int directory)
{
	struct stat here;
	return !fstat(directory, &here) && here.st_dev == root->device;
}

/* The directory that holds `path`, its ancestors made where they lack; *name is the last component. */
static int open_parent(const struct root *root, const char *path, const char **name, struct sn_failure *why)
{
	char so_far[4096] = "";
	const char *slash = strrchr(path, '/');
	*name = slash ? slash + 1 : path;
	size_t length = slash ? (size_t)(slash - path) : 0;
	if (length >= sizeof so_far)
		return fail(why, SN_STAGE_MOUNT, ENAMETOOLONG, path);
	owned_fd parent = (int)open_beneath(root->new, "/", O_PATH | O_DIRECTORY);
	for (size_t at = 1; at <= length && parent >= 0; at++) {
		if (at < length && path[at] != '/')
			continue;
		memcpy(so_far, path, at);
		so_far[at] = 0;
		if (is_ours(root, parent))
			sys(SYS_mkdirat, root->new, so_far + 1, 0755); /* EEXIST, and whatever else is wrong, shows in the open below */
		fd_close(&parent);
		parent = (int)open_beneath(root->new, so_far, O_PATH | O_DIRECTORY);
	}
	return parent < 0 ? fail(why, SN_STAGE_MOUNT, parent, length ? so_far : path) : fd_move(&parent);
}

static int make_file(int parent, const char *name, const char *data, size_t size, uint32_t mode, const char *path,
		     struct sn_failure *why)
{
	owned_fd fd = (int)sys(SYS_openat, parent, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return fail(why, SN_STAGE_MOUNT, fd, path);
	while (size) {
		long wrote = sys(SYS_write, fd, data, size);
		if (wrote < 0)
			return fail(why, SN_STAGE_MOUNT, wrote, path);
		data += wrote;
		size -= (size_t)wrote;
	}
	long result = sys(SYS_fchmod, fd, mode);
	return result < 0 ? fail(why, SN_STAGE_MOUNT, result, path) : 0;
}

static int make_node(struct root *root, const struct sn_op *op, struct sn_failure *why)
{
	const char *target = plan_text(root->plan, op->target), *name;
	owned_fd parent = open_parent(root, target, &name, why);
	if (parent < 0)
		return -1;
	if (!is_ours(root, parent))
		return fail(why, SN_STAGE_MOUNT, EXDEV, target);
	const char *data = plan_text(root->plan, op->data);
	if (op->kind == SN_OP_FILE)
		return make_file(parent, name, data, op->size, op->mode, target, why);
	long result;
	if (op->kind == SN_OP_SYMLINK) {
		result = sys(SYS_symlinkat, data, parent, name);
	} else {
		result = sys(SYS_mkdirat, parent, name, 0700);
		if (result >= 0 || result == -EEXIST)
			result = sys(SYS_fchmodat, parent, name, op->mode);
	}
	return result < 0 ? fail(why, SN_STAGE_MOUNT, result, target) : 0;
}

/* A mount point of the source's kind, unless something is there. */
static int make_mount_point(struct root *root, int tree, const char *target, struct sn_failure *why)
{
	owned_fd there = (int)open_beneath(root->new, target, O_PATH);
	if (there >= 0)
		return 0;
	const char *name;
	struct stat source;
	owned_fd parent = open_parent(root, target, &name, why);
	if (parent < 0)
		return -1;
	if (!is_ours(root, parent))
		return fail(why, SN_STAGE_MOUNT, ENOENT, target);
	if (fstat(tree, &source))
		return fail(why, SN_STAGE_MOUNT, errno, target);
	if (!S_ISDIR(source.st_mode))
		return make_file(parent, name, NULL, 0, 0644, target, why);
	long result = sys(SYS_mkdirat, parent, name, 0755);
	return result < 0 ? fail(why, SN_STAGE_MOUNT, result, target) : 0;
}

static int set_flags(const char *target, uint32_t flags, struct sn_failure *why)
{
	char top[4096] = "/new";
	text_add(top, sizeof top, target);
	return remount_tree("/old/proc/self/mountinfo", top, mount_classic_flags(flags), !(flags & SN_OP_NORECURSE), why);
}

static int attach(const struct root *root, int tree, const char *target, uint32_t flags, struct sn_failure *why)
{
	owned_fd point = (int)open_beneath(root->new, target, O_PATH | O_NOFOLLOW);
	long result = point < 0 ? point : mount_move(tree, point);
	if (result < 0)
		return fail(why, SN_STAGE_MOUNT, result, target);
	return root->old_kernel ? set_flags(target, flags, why) : 0;
}

static int bind(struct root *root, const struct sn_op *op, struct sn_failure *why)
{
	const char *source = plan_text(root->plan, op->source), *target = plan_text(root->plan, op->target);
	bool overlay = op->kind == SN_OP_OVERLAY;
	owned_fd tree = overlay ? overlay_of_host(root->plan, root->old, op, why)
				: mount_clone(root->plan, root->old, source, op->flags, op->device, op->inode, why);
	if (tree == MOUNT_ABSENT) {
		tree = -1;
		return 0;
	}
	if (tree < 0 || make_mount_point(root, tree, target, why) || attach(root, tree, target, op->flags, why)) {
		why->stage = overlay ? SN_STAGE_OVERLAY : why->stage;
		return -1;
	}
	return 0;
}

/* Its own kind of clone of something empty in the new root, which is not read-only yet. */
static int mask(struct root *root, const struct sn_op *op, struct sn_failure *why)
{
	enum { FLAGS = SN_OP_RDONLY | SN_OP_NOSUID | SN_OP_NODEV | SN_OP_NORECURSE };
	const char *target = plan_text(root->plan, op->target);
	owned_fd there = (int)open_beneath(root->new, target, O_PATH | O_NOFOLLOW);
	if (there == -ENOENT)
		return 0;
	owned_fd tree = mount_clone(root->plan, root->new, plan_text(root->plan, op->source), FLAGS, 0, 0, why);
	return tree < 0 ? -1 : attach(root, tree, target, FLAGS, why);
}

static int apply(struct root *root, const struct sn_op *op, struct sn_failure *why)
{
	switch (op->kind) {
	case SN_OP_DIR:
	case SN_OP_FILE:
	case SN_OP_SYMLINK:
		return make_node(root, op, why);
	case SN_OP_BIND:
	case SN_OP_OVERLAY:
		return bind(root, op, why);
	case SN_OP_MASK:
		return mask(root, op, why);
	default:
		return fail(why, SN_STAGE_PLAN, EINVAL, plan_text(root->plan, op->target));
	}
}

/* The host's tree at /old, an empty root at /new. The scratch root needs some directory that every system has. */
static int set_aside(struct sn_failure *why)
{
	static const char base[] = "/tmp";
	long result = sys(SYS_mount, NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL);
	if (result < 0)
		return fail(why, SN_STAGE_MOUNTNS, result, "/");
	result = sys(SYS_mount, "tmpfs", base, "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755,size=16m");
	if (result < 0)
		return fail(why, SN_STAGE_MOUNT, result, base);
	if ((result = sys(SYS_chdir, base)) < 0 || (result = sys(SYS_mkdirat, AT_FDCWD, "old", 0700)) < 0 ||
	    (result = sys(SYS_mkdirat, AT_FDCWD, "new", 0755)) < 0 ||
	    (result = sys(SYS_pivot_root, ".", "old")) < 0 || (result = sys(SYS_chdir, "/")) < 0)
		return fail(why, SN_STAGE_PIVOT, result, base);
	result = sys(SYS_mount, "tmpfs", "/new", "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755,size=16m");
	return result < 0 ? fail(why, SN_STAGE_MOUNT, result, "/") : 0;
}

static int switch_over(struct sn_failure *why)
{
	long result = sys(SYS_mount, NULL, "/new", NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV, NULL);
	if (result < 0)
		return fail(why, SN_STAGE_MOUNT, result, "/");
	if ((result = sys(SYS_chdir, "/new")) < 0 || (result = sys(SYS_pivot_root, ".", ".")) < 0 ||
	    (result = sys(SYS_umount2, ".", MNT_DETACH)) < 0 || (result = sys(SYS_chdir, "/")) < 0)
		return fail(why, SN_STAGE_PIVOT, result, "/");
	return 0;
}

int root_build(struct plan *plan, struct sn_failure *why)
{
	if (set_aside(why))
		return -1;
	owned_fd new = (int)sys(SYS_openat, AT_FDCWD, "/new", O_PATH | O_DIRECTORY | O_CLOEXEC);
	owned_fd old = (int)sys(SYS_openat, AT_FDCWD, "/old", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (new < 0 || old < 0)
		return fail(why, SN_STAGE_PIVOT, new < 0 ? new : old, "/");
	struct stat top;
	if (fstat(new, &top))
		return fail(why, SN_STAGE_PIVOT, errno, "/");
	struct root root = {.plan = plan, .new = new, .old = old, .device = top.st_dev};
	root.old_kernel = is_absent(sys(NR_mount_setattr, -1, "", 0, NULL, 0));
	plan->building = true;
	const struct sn_op *op = (const void *)(plan->base + plan->head->template_at);
	for (uint32_t i = 0; i < plan->head->template_count; i++)
		if (apply(&root, op + i, why))
			return -1;
	plan->building = false;
	return switch_over(why);
}
