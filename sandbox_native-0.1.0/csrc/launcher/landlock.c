/* Landlock: a second layer below the mounts, what refuses deletion, and on the rung without namespaces all that keeps files apart. Which
 * rights there are and who has them is the plan's.
 *
 * Init makes the ruleset while the box is parked, and adds what a run brings. Only the guest enters it, in its first steps:
 * a process in a domain may not mount. Everything that it starts is in it too, and nothing leads out.
 */

#include "launcher.h"

#include <sys/stat.h>

enum { PATH_BENEATH = 1 };
enum { FOR_FILES = 0x1 | 0x2 | 0x4 | 0x4000 | 0x8000 }; /* execute, write, read, truncate, ioctl: all that a rule for a file may hold */

struct ruleset { /* struct landlock_ruleset_attr as it is now; an older kernel takes it as long as what it does not know is 0 */
	uint64_t fs, net, scoped;
};

struct __attribute__((packed)) beneath { /* struct landlock_path_beneath_attr */
	uint64_t access;
	int32_t fd;
};

static long add(int ruleset, int fd, uint64_t access)
{
	struct stat found;
	struct beneath rule = {.access = access, .fd = fd};
	long result = sys(NR_landlock_add_rule, ruleset, PATH_BENEATH, &rule, 0);
	if (result != -EINVAL || fstat(fd, &found) || S_ISDIR(found.st_mode))
		return result;
	rule.access &= FOR_FILES;
	return rule.access ? sys(NR_landlock_add_rule, ruleset, PATH_BENEATH, &rule, 0) : 0;
}

/* Those of one kind: of a process's own directory in /proc, or all others. The O_PATH descriptor of the former stays open, in the table that
 * the guest shares with init: a rule holds on to an inode, which /proc makes anew for a name that it had to forget. */
static int add_rules(const struct plan *plan, uint32_t kind, struct sn_failure *why)
{
	const struct sn_rule *rule = (const void *)(plan->base + plan->head->rules_at);
	for (uint32_t i = 0; i < plan->head->rules_count; i++, rule++) {
		if ((rule->flags & SN_RULE_SELF) != kind)
			continue;
		const char *path = plan_text(plan, rule->path);
		owned_fd fd = (int)mount_source(-1, path, rule->device, rule->inode);
		if (rule->flags & SN_RULE_OPTIONAL && (fd == -ENOENT || fd == -EACCES || fd == -ENOTDIR))
			continue;
		long result = fd < 0 ? fd : add(plan->ruleset, fd, rule->access);
		if (result < 0)
			return fail(why, SN_STAGE_LANDLOCK, result, path);
		if (kind)
			fd_move(&fd);
	}
	return 0;
}

static int make(struct plan *plan, struct sn_failure *why)
{
	const struct sn_plan *head = plan->head;
	struct ruleset attr = {.fs = head->landlock_handled, .scoped = head->landlock_scoped};
	if (!attr.fs && !attr.scoped)
		return 0;
	long result = sys(NR_landlock_create_ruleset, &attr, sizeof attr, 0);
	if (result < 0)
		return fail(why, SN_STAGE_LANDLOCK, result, "landlock_create_ruleset");
	plan->ruleset = (int)result;
	return add_rules(plan, 0, why);
}

/* Not where a run's overlays are yet to cover what the rules name. */
int landlock_prepare(struct plan *plan, struct sn_failure *why)
{
	return plan->head->changes_at ? 0 : make(plan, why);
}

static int add_directory(const struct plan *plan, int fd, uint64_t access, struct sn_failure *why)
{
	long result = fd < 0 ? fd : access ? add(plan->ruleset, fd, access) : 0;
	return result < 0 ? fail(why, SN_STAGE_LANDLOCK, result, "workspace") : 0;
}

/* What a run brings: on the rung without namespaces its directories themselves, else the workspace as it is mounted by now. */
int landlock_complete(struct plan *plan, const struct request *request, struct sn_failure *why)
{
	const struct sn_plan *head = plan->head;
	if (head->changes_at && make(plan, why))
		return -1;
	if (plan->ruleset < 0 || request->workspace < 0)
		return 0;
	if (plan_bare(plan))
		return add_directory(plan, request->workspace, head->landlock_workspace, why) ||
				       (request->upper >= 0 && add_directory(plan, request->upper, head->landlock_handled, why))
			       ? -1
			       : 0;
	owned_fd shown = (int)sys(SYS_openat, AT_FDCWD, plan_text(plan, head->workspace_at), O_PATH | O_CLOEXEC);
	return add_directory(plan, shown, head->landlock_workspace, why);
}

/* The guest's, before its filter is there. */
int landlock_own(const struct plan *plan, struct sn_failure *why)
{
	return plan->ruleset < 0 ? 0 : add_rules(plan, SN_RULE_SELF, why);
}

int landlock_enter(const struct plan *plan, uint32_t *held, struct sn_failure *why)
{
	if (plan->ruleset < 0)
		return 0;
	long result = sys(NR_landlock_restrict_self, plan->ruleset, 0);
	if (result < 0)
		return fail(why, SN_STAGE_LANDLOCK, result, "landlock_restrict_self");
	*held |= SN_HELD_LANDLOCK;
	return 0;
}
