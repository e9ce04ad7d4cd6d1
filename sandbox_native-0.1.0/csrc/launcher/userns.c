/* User namespaces and their maps.
 *
 * Plain user: the launcher makes one at its start (guest's uid -> the caller), everything else is inside.
 * Root: the template builds the root with the host's privileges, then enters one that knows a single, unprivileged host
 * uid. Only a process outside may write such a map: the launcher does, when the template says a word
 * on the mapper socket. In both cases every box has a user namespace of its own below, mapping the one id to itself.
 *
 * The maps of a process that is not dumpable belong to root, so a process that writes its own is dumpable
 * for that moment.
 */

#include "launcher.h"

#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

static int write_file(const char *directory, const char *name, const char *text, struct sn_failure *why)
{
	char path[64] = "";
	text_add(path, sizeof path, directory);
	text_add(path, sizeof path, name);
	owned_fd fd = (int)sys(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return fail(why, SN_STAGE_USERNS, fd, path);
	long wrote = sys(SYS_write, fd, text, strlen(text));
	if (wrote < 0)
		return fail(why, SN_STAGE_USERNS, wrote, path);
	return 0;
}

static int write_map(const char *process, const char *name, uint32_t inside, uint32_t outside, struct sn_failure *why)
{
	char line[40] = "";
	text_add_number(line, sizeof line, inside);
	text_add(line, sizeof line, " ");
	text_add_number(line, sizeof line, outside);
	text_add(line, sizeof line, " 1\n");
	return write_file(process, name, line, why);
}

int userns_map(const char *process, uint32_t inside_uid, uint32_t outside_uid, uint32_t inside_gid, uint32_t outside_gid,
	       bool deny_setgroups, struct sn_failure *why)
{
	if (deny_setgroups && write_file(process, "/setgroups", "deny", why))
		return -1;
	if (write_map(process, "/uid_map", inside_uid, outside_uid, why))
		return -1;
	return write_map(process, "/gid_map", inside_gid, outside_gid, why);
}

/* The guests of a plain user draw on that user's own quota: here is how much of it all boxes of the plan may have together. */
static int spare_inotify(const struct sn_plan *head, struct sn_failure *why)
{
	char number[16] = "";
	if (!head->inotify_instances)
		return 0;
	text_add_number(number, sizeof number, head->inotify_instances);
	return write_file("/proc/sys/user", "/max_inotify_instances", number, why);
}

int userns_enter_self(const struct plan *plan, struct sn_failure *why)
{
	const struct sn_plan *head = plan->head;
	long result = sys(SYS_unshare, CLONE_NEWUSER | CLONE_NEWNS);
	if (result < 0)
		return fail(why, SN_STAGE_USERNS, result, "new user namespace");
	sys(SYS_prctl, PR_SET_DUMPABLE, 1);
	int mapped = userns_map("/proc/self", head->inside_uid, head->box_uid, head->inside_gid, head->box_gid, true, why);
	sys(SYS_prctl, PR_SET_DUMPABLE, 0);
	return mapped ? mapped : spare_inotify(head, why);
}

/* Capabilities survive one change of uid with PR_SET_KEEPCAPS, but have to be made effective again. */
static int become_uid(const struct sn_plan *head, struct sn_failure *why)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct sets[2] = {{0}};
	long result = sys(SYS_setgroups, 0, NULL);
	if (result < 0)
		return fail(why, SN_STAGE_CREDS, result, "supplementary groups");
	sys(SYS_prctl, PR_SET_KEEPCAPS, 1, 0, 0, 0);
	if ((result = sys(SYS_setresgid, head->box_gid, head->box_gid, head->box_gid)) < 0)
		return fail(why, SN_STAGE_CREDS, result, "setresgid");
	if ((result = sys(SYS_setresuid, head->box_uid, head->box_uid, head->box_uid)) < 0)
		return fail(why, SN_STAGE_CREDS, result, "setresuid");
	if ((result = sys(SYS_capget, &header, sets)) >= 0) {
		sets[0].effective = sets[0].permitted;
		sets[1].effective = sets[1].permitted;
		result = sys(SYS_capset, &header, sets);
	}
	return result < 0 ? fail(why, SN_STAGE_CREDS, result, "capabilities") : 0;
}

/* Template, as root: lose the host's privileges. The uid is changed first: what the kernel counts for each user (message queues,
 * pending signals, inotify) it counts for whoever made the namespace too, and that must not be the host's root. The capabilities are
 * kept until then, since some kernels let only the privileged make user namespaces; entering it is what ends them. */
int userns_become_box(struct plan *plan, int mapper, struct sn_failure *why)
{
	if (become_uid(plan->head, why))
		return -1;
	long result = sys(SYS_unshare, CLONE_NEWUSER | CLONE_NEWNS);
	if (result < 0)
		return fail(why, SN_STAGE_USERNS, result, "new user namespace");
	struct sn_failure word = {0};
	unsigned none = 0;
	if (channel_send(mapper, &word, sizeof word, NULL, 0) < 0 ||
	    channel_receive(mapper, &word, sizeof word, NULL, 0, NULL, &none) != (long)sizeof word)
		return fail(why, SN_STAGE_USERNS, EPIPE, "uid map from the launcher");
	if (word.stage) {
		*why = word;
		return -1;
	}
	sys(SYS_prctl, PR_SET_DUMPABLE, 0);
	return 0;
}

/* Launcher, as root: write the template's map when it asks. */
int userns_serve_mapper(const struct plan *plan, int mapper, long pid)
{
	const struct sn_plan *head = plan->head;
	struct sn_failure word = {0};
	unsigned none = 0;
	if (channel_receive(mapper, &word, sizeof word, NULL, 0, NULL, &none) != (long)sizeof word)
		return -1; /* it failed earlier, and told the host itself */
	char process[32] = "/proc/";
	text_add_number(process, sizeof process, (uint64_t)pid);
	userns_map(process, head->inside_uid, head->box_uid, head->inside_gid, head->box_gid, true, &word);
	return channel_send(mapper, &word, sizeof word, NULL, 0) < 0 ? -1 : 0;
}

/* A user namespace that says "the owner's id on disk is the guest's": a process lives just long enough to name it. */
int userns_for_idmap(const struct plan *plan, struct sn_failure *why)
{
	const struct sn_plan *head = plan->head;
	int pair[2];
	if (pipe2(pair, O_CLOEXEC))
		return fail(why, SN_STAGE_IDMAP, errno, "pipe");
	long pid = sys_clone(CLONE_NEWUSER, NULL, SIGCHLD, -1);
	if (pid == 0) {
		char byte;
		sys(SYS_close, pair[1]);
		sys(SYS_read, pair[0], &byte, 1); /* until the launcher closes its end */
		sys(SYS_exit_group, 0);
	}
	sys(SYS_close, pair[0]);
	owned_fd holder = pair[1];
	if (pid < 0)
		return fail(why, SN_STAGE_IDMAP, pid, "new user namespace");
	char process[48] = "";
	text_add(process, sizeof process, plan->building ? "/old/proc/" : "/proc/");
	text_add_number(process, sizeof process, (uint64_t)pid);
	if (userns_map(process, head->owner_uid, head->box_uid, head->owner_gid, head->box_gid, false, why)) {
		why->stage = SN_STAGE_IDMAP;
		return -1;
	}
	text_add(process, sizeof process, "/ns/user");
	long fd = sys(SYS_openat, AT_FDCWD, process, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return fail(why, SN_STAGE_IDMAP, fd, process);
	return (int)fd;
}
