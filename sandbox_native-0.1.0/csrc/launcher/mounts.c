/* One mount operation each. Binds are made as detached trees: cloned by descriptor, compared with
 * what the host validated, given their flags, and only then attached, so nothing is ever visible without them.
 *
 * Called by the launcher (a workspace for one run), by the template (the root) and by init (what is new in each box).
 */

#include "launcher.h"

#include <linux/mount.h>
#include <linux/openat2.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>

#ifndef MOUNT_ATTR_IDMAP
#define MOUNT_ATTR_IDMAP 0x00100000
#endif
#ifndef OPEN_TREE_CLONE
#define OPEN_TREE_CLONE 1
#endif
#define TREE_RECURSIVE 0x8000 /* AT_RECURSIVE */

static uint64_t attributes(uint32_t flags)
{
	return (flags & SN_OP_RDONLY ? MOUNT_ATTR_RDONLY : 0) | (flags & SN_OP_NOSUID ? MOUNT_ATTR_NOSUID : 0) |
	       (flags & SN_OP_NODEV ? MOUNT_ATTR_NODEV : 0) | (flags & SN_OP_NOEXEC ? MOUNT_ATTR_NOEXEC : 0);
}

unsigned long mount_classic_flags(uint32_t flags)
{
	return (flags & SN_OP_RDONLY ? MS_RDONLY : 0) | (flags & SN_OP_NOSUID ? MS_NOSUID : 0) |
	       (flags & SN_OP_NODEV ? MS_NODEV : 0) | (flags & SN_OP_NOEXEC ? MS_NOEXEC : 0);
}

bool mount_is_same(int fd, uint64_t device, uint64_t inode)
{
	struct stat found;
	if (!device && !inode)
		return true;
	return !fstat(fd, &found) && found.st_dev == device && found.st_ino == inode;
}

/* Absent before Linux 5.12. */
long mount_set_flags(int tree, uint32_t flags)
{
	struct mount_attr attr = {.attr_set = attributes(flags)};
	return attr.attr_set ? sys(NR_mount_setattr, tree, "", AT_EMPTY_PATH | TREE_RECURSIVE, &attr, sizeof attr) : 0;
}

/* Flags and owner map of a detached tree. Absent before Linux 5.12: whoever attaches the tree then sets the flags (remount.c); a map of
 * owners cannot be had, and a tree for one run is never read-only. */
static int set_attributes(struct plan *plan, int tree, const char *path, uint32_t flags, struct sn_failure *why)
{
	struct mount_attr attr = {.attr_set = attributes(flags)};
	if (flags & SN_OP_IDMAP && plan_as_root(plan)) {
		if (plan->idmap_fd < 0 && (plan->idmap_fd = userns_for_idmap(plan, why)) < 0)
			return -1;
		attr.attr_set |= MOUNT_ATTR_IDMAP;
		attr.userns_fd = (uint64_t)plan->idmap_fd;
	}
	if (!attr.attr_set)
		return 0;
	unsigned recursive = flags & SN_OP_NORECURSE ? 0 : TREE_RECURSIVE;
	long result = sys(NR_mount_setattr, tree, "", AT_EMPTY_PATH | recursive, &attr, sizeof attr);
	if (is_absent(result) && !(attr.attr_set & MOUNT_ATTR_IDMAP) && (plan->building || !(flags & SN_OP_RDONLY)))
		return 0;
	if (result < 0)
		return fail(why, attr.attr_set & MOUNT_ATTR_IDMAP ? SN_STAGE_IDMAP : SN_STAGE_MOUNT, result, path);
	return 0;
}

/* A descriptor (O_PATH) of what the host validated, or -errno. */
long mount_source(int root, const char *path, uint64_t device, uint64_t inode)
{
	struct open_how how = {.flags = O_PATH | O_CLOEXEC, .resolve = root >= 0 ? RESOLVE_IN_ROOT : 0};
	owned_fd source = (int)sys(NR_openat2, root >= 0 ? root : AT_FDCWD, path, &how, sizeof how);
	return source >= 0 && !mount_is_same(source, device, inode) ? -ESTALE : fd_move(&source);
}

/* What lies at `path` itself, with no link on the way: O_PATH, or -errno. */
long mount_exactly(const char *path)
{
	struct open_how how = {.flags = O_PATH | O_NOFOLLOW | O_CLOEXEC, .resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS};
	return sys(NR_openat2, AT_FDCWD, path, &how, sizeof how);
}

int mount_clone(struct plan *plan, int root, const char *path, uint32_t flags, uint64_t device, uint64_t inode,
		struct sn_failure *why)
{
	owned_fd source = (int)mount_source(root, path, device, inode);
	if (source == -ENOENT && flags & SN_OP_OPTIONAL)
		return MOUNT_ABSENT;
	if (source < 0)
		return fail(why, plan->building ? SN_STAGE_MOUNT : SN_STAGE_WORKSPACE, source, path);
	unsigned recursive = flags & SN_OP_NORECURSE ? 0 : TREE_RECURSIVE;
	owned_fd tree = (int)sys(NR_open_tree, source, "", OPEN_TREE_CLONE | O_CLOEXEC | AT_EMPTY_PATH | recursive);
	if (tree < 0)
		return fail(why, SN_STAGE_MOUNT, tree, path);
	if (set_attributes(plan, tree, path, flags, why))
		return -1;
	return fd_move(&tree);
}

long mount_move(int tree, int point)
{
	return sys(NR_move_mount, tree, "", point, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH);
}

int mount_attach(int mount, const char *target, struct sn_failure *why)
{
	long result = sys(NR_move_mount, mount, "", AT_FDCWD, target, MOVE_MOUNT_F_EMPTY_PATH);
	return result < 0 ? fail(why, SN_STAGE_MOUNT, result, target) : 0;
}

static int box_tmpfs(const struct plan *plan, const struct sn_op *op, const char *target, uint64_t size, unsigned long how,
		     struct sn_failure *why)
{
	char options[160] = "";
	if (op->data)
		text_add(options, sizeof options, plan_text(plan, op->data));
	if (op->flags & SN_OP_SIZED) {
		text_add(options, sizeof options, *options ? ",size=" : "size=");
		text_add_number(options, sizeof options, size);
	}
	long result = sys(SYS_mount, "tmpfs", target, "tmpfs", mount_classic_flags(op->flags) | how, options);
	return result < 0 ? fail(why, SN_STAGE_MOUNT, result, target) : 0;
}

/* A /proc of the box's own. Where the host's is partly covered (containers) the kernel refuses a full one; one that
 * shows processes only may be had there. */
static int box_proc(const struct sn_op *op, const char *target, uint32_t *held, struct sn_failure *why)
{
	long result = sys(SYS_mount, "proc", target, "proc", mount_classic_flags(op->flags), NULL);
	if (result == -EPERM) {
		result = sys(SYS_mount, "proc", target, "proc", mount_classic_flags(op->flags), "subset=pid");
		*held |= result < 0 ? 0 : SN_HELD_PROC_SUBSET;
	}
	if (result < 0)
		return fail(why, SN_STAGE_MOUNT, result, target);
	*held |= SN_HELD_PROC;
	return 0;
}

static int box_queues(const struct sn_op *op, const char *target, struct sn_failure *why)
{
	long result = sys(SYS_mount, "mqueue", target, "mqueue", mount_classic_flags(op->flags), NULL);
	return result < 0 && result != -ENODEV ? fail(why, SN_STAGE_MOUNT, result, target) : 0;
}

static int box_mask(const char *source, const char *target, struct sn_failure *why)
{
	long result = sys(SYS_mount, source, target, NULL, MS_BIND, NULL);
	return result < 0 && result != -ENOENT ? fail(why, SN_STAGE_MOUNT, result, target) : 0;
}

/* A directory or an empty file to mount on, with the directories above it. */
int mount_target(const char *target, bool directory, struct sn_failure *why)
{
	char path[4096] = "";
	text_add(path, sizeof path, target);
	for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = 0;
		long result = sys(SYS_mkdirat, AT_FDCWD, path, 0755);
		*slash = '/';
		if (result < 0 && result != -EEXIST && result != -EROFS)
			return fail(why, SN_STAGE_MOUNT, result, target);
	}
	long result = directory ? sys(SYS_mkdirat, AT_FDCWD, path, 0755)
				: sys(SYS_mknodat, AT_FDCWD, path, S_IFREG | 0644, 0);
	return result < 0 && result != -EEXIST ? fail(why, SN_STAGE_MOUNT, result, target) : 0;
}

/* What the template kept aside. The copy has the flags and the owner map that it was given there. */
static int box_bind(const char *source, const char *target, struct sn_failure *why)
{
	struct stat found;
	if (stat(source, &found))
		return fail(why, SN_STAGE_MOUNT, errno, target);
	if (mount_target(target, S_ISDIR(found.st_mode), why))
		return -1;
	long result = sys(SYS_mount, source, target, NULL, MS_BIND | MS_REC, NULL);
	return result < 0 ? fail(why, SN_STAGE_MOUNT, result, target) : 0;
}

int mount_box_op(const struct plan *plan, const struct sn_op *op, uint32_t *held, struct sn_failure *why)
{
	const char *target = plan_text(plan, op->target);
	switch (op->kind) {
	case SN_OP_TMPFS:
		return box_tmpfs(plan, op, target, plan->head->tmp_bytes, 0, why);
	case SN_OP_PROC:
		return box_proc(op, target, held, why);
	case SN_OP_MQUEUE:
		return box_queues(op, target, why);
	case SN_OP_BIND:
		return box_bind(plan_text(plan, op->source), target, why);
	case SN_OP_MASK:
		return box_mask(plan_text(plan, op->source), target, why);
	case SN_OP_GUARD:
		return guard_op(plan, op, why);
	default:
		return fail(why, SN_STAGE_PLAN, EINVAL, target);
	}
}

/* A run that wants another tmp_bytes than the plan's. */
int mount_resize(const struct plan *plan, uint64_t tmp_bytes, struct sn_failure *why)
{
	const struct sn_op *op = (const void *)(plan->base + plan->head->box_at);
	for (uint32_t i = 0; i < plan->late; i++)
		if (op[i].kind == SN_OP_TMPFS && op[i].flags & SN_OP_SIZED)
			if (box_tmpfs(plan, op + i, plan_text(plan, op[i].target), tmp_bytes, MS_REMOUNT, why))
				return -1;
	return 0;
}

/* A tmpfs as the private workspace is. */
int mount_like_workspace(const struct plan *plan, const char *target, uint64_t size, struct sn_failure *why)
{
	const struct sn_op *op = (const void *)(plan->base + plan->head->box_at);
	const char *workspace = plan_text(plan, plan->head->workspace_at);
	for (uint32_t i = 0; i < plan->late; i++)
		if (op[i].kind == SN_OP_TMPFS && !strcmp(plan_text(plan, op[i].target), workspace))
			return box_tmpfs(plan, op + i, target, size, 0, why);
	return fail(why, SN_STAGE_PLAN, EINVAL, "no private workspace");
}
